"""What holds in every history: several workers, crashes, silence, zombies, gaps, late arrivals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shuffler.errors import LeaseLost
from shuffler.lease import Lease
from shuffler.ledger import Ledger, Terms

WORKERS = ("a", "b", "c")
PARTITIONS = (0, 1, 2)
TTL_S = 10.0

workers = st.sampled_from(WORKERS)


class LedgerHistory(RuleBasedStateMachine):
    """A model beside the ledger knows of every offset whether it was trained, and how often.

    Here every offset is a sample, so `trained` must count each exactly once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.ledger = Ledger(Terms(ttl_s=TTL_S, patience_s=5.0))
        self.heard_s: dict[str, float] = {}
        self.given: list[Lease] = []
        self.valid: dict[int, Lease] = {}
        self.lapsed: set[int] = set()
        self.done: dict[int, set[int]] = {p: set() for p in PARTITIONS}
        self.starts: dict[int, int] = {}
        self.watermarks: dict[int, int] = {}

    @initialize(starts=st.tuples(*[st.integers(0, 50)] * len(PARTITIONS)))
    def open_with(self, starts: tuple[int, ...]) -> None:
        self.starts = dict(zip(PARTITIONS, starts, strict=True))
        self.ledger.open(self.starts, now_s=self.now_s)
        self.watermarks = dict(self.starts)

    @rule(partition=st.sampled_from(PARTITIONS), more=st.integers(0, 40))
    def samples_arrive(self, partition: int, more: int) -> None:
        end = self.ledger.progress().ends[partition] + more
        self.ledger.extend({partition: end}, now_s=self.now_s)

    @rule(worker=workers, samples=st.integers(1, 25), prefer=st.lists(st.sampled_from(PARTITIONS)))
    def a_worker_asks(self, worker: str, samples: int, prefer: list[int]) -> None:
        self.take_back_lapsed()
        lease = self.ledger.acquire(worker, samples=samples, prefer=prefer, now_s=self.now_s)
        self.heard_s[worker] = self.now_s
        if lease is None:
            assert not self.unleased(), "offsets were kept back"
            return
        assert 0 < lease.end - lease.start <= samples
        offsets = set(range(lease.start, lease.end))
        assert not offsets & self.done[lease.partition], "trained offsets were given out again"
        assert offsets <= self.unleased().get(lease.partition, set()), "two live leases over one offset"
        self.given.append(lease)
        self.valid[lease.token] = lease

    @rule(worker=workers)
    def a_worker_renews(self, worker: str) -> None:
        self.ledger.renew(worker, now_s=self.now_s)
        self.heard_s[worker] = self.now_s

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def somebody_completes(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.given))
        length = lease.end - lease.start
        self.settle(lease, upto=lease.end, action=lambda: self.ledger.complete(lease, trained=length, late=0))

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def somebody_releases(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.given))
        upto = data.draw(st.integers(lease.start, lease.end))
        trained = upto - lease.start
        self.settle(
            lease, upto=upto, action=lambda: self.ledger.release(lease, upto=upto, trained=trained, late=0)
        )

    @rule(seconds=st.floats(0.0, 2.0 * TTL_S))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds

    @rule()
    def lapsed_leases_are_taken_back(self) -> None:
        self.take_back_lapsed()

    @invariant()
    def the_watermark_is_what_is_trained_without_a_gap(self) -> None:
        progress = self.ledger.progress()
        for partition, start in self.starts.items():
            low = start
            while low in self.done[partition]:
                low += 1
            assert progress.watermarks[partition] == low
            assert self.watermarks[partition] <= low <= progress.ends[partition]
        self.watermarks = dict(progress.watermarks)

    @invariant()
    def each_sample_is_counted_once(self) -> None:
        assert self.ledger.progress().trained == sum(len(offsets) for offsets in self.done.values())

    def teardown(self) -> None:
        """A last worker finishes everything: nothing was skipped."""
        if not self.starts:
            return
        for _ in range(10_000):
            lease = self.ledger.acquire("last", samples=25, prefer=(), now_s=self.now_s)
            if lease is not None:
                self.done[lease.partition] |= set(range(lease.start, lease.end))
                self.ledger.complete(lease, trained=lease.end - lease.start, late=0)
            elif not self.ledger.leases():
                break
            self.now_s += TTL_S / 4
        progress = self.ledger.progress()
        assert progress.watermarks == progress.ends
        self.each_sample_is_counted_once()

    def settle(self, lease: Lease, *, upto: int, action: Callable[[], None]) -> None:
        before = self.ledger.progress()
        if lease.token in self.valid:
            action()
            del self.valid[lease.token]
            self.done[lease.partition] |= set(range(lease.start, upto))
        elif lease.token in self.lapsed:
            with pytest.raises(LeaseLost):
                action()
            assert self.ledger.progress() == before
        else:  # settled before: said again, or long forgotten
            with suppress(LeaseLost):
                action()
            assert self.ledger.progress() == before

    def take_back_lapsed(self) -> None:
        for lease in self.ledger.expire(now_s=self.now_s):
            assert self.heard_s[lease.worker] <= self.now_s - TTL_S, "a worker that was heard lost its lease"
            del self.valid[lease.token]
            self.lapsed.add(lease.token)

    def unleased(self) -> dict[int, set[int]]:
        progress = self.ledger.progress()
        out = {p: set(range(self.starts[p], progress.ends[p])) - self.done[p] for p in PARTITIONS}
        for lease in self.valid.values():
            out[lease.partition] -= set(range(lease.start, lease.end))
        return {p: offsets for p, offsets in out.items() if offsets}


TestLedgerHistories = LedgerHistory.TestCase
TestLedgerHistories.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
