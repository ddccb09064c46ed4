"""What every LeaseLedger does, in memory and on a real Redis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from threading import Thread
from typing import Any

import pytest

from services.stream.ports import LeaseLedger
from shuffler.errors import LeaseLost, NotOpened
from shuffler.lease import Lease
from tests.stream.conftest import TERMS, LedgerUnderTest


def opened(shared: LedgerUnderTest, ends: dict[int, int]) -> LeaseLedger:
    ledger = shared.connect()
    ledger.open(dict.fromkeys(ends, 0))
    ledger.extend(ends)
    return ledger


def acquired(ledger: LeaseLedger, worker: str, *, samples: int = 10, prefer: Sequence[int] = ()) -> Lease:
    lease = ledger.acquire(worker, samples=samples, prefer=prefer)
    assert lease is not None
    return lease


def extent(lease: Lease) -> tuple[int, int, int]:
    return lease.partition, lease.start, lease.end


def test_processes_share_the_work_without_overlap(shared: LedgerUnderTest) -> None:
    opened(shared, {0: 25})
    one, other = shared.connect(), shared.connect()

    leases = [acquired(one, "a"), acquired(other, "b"), acquired(one, "a")]

    assert [extent(lease) for lease in leases] == [(0, 0, 10), (0, 10, 20), (0, 20, 25)]
    assert other.acquire("b", samples=10, prefer=()) is None
    assert len({lease.token for lease in leases}) == 3


def test_progress_tells_what_is_trained_beyond_the_watermark(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 40, 1: 10})
    first, second, third = (acquired(ledger, "a", prefer=(0,)) for _ in range(3))

    ledger.complete(third, trained=10, late=0)
    ledger.release(second, upto=15, trained=5, late=0)

    assert ledger.progress().watermarks == {0: 0, 1: 0}
    assert ledger.progress().beyond == {0: ((10, 15), (20, 30))}
    ledger.complete(first, trained=10, late=0)
    assert ledger.progress().watermarks[0] == 15
    assert ledger.progress().beyond == {0: ((20, 30),)}


def test_a_lease_says_when_it_expires(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 10})

    assert acquired(ledger, "a").expires_at_s == pytest.approx(shared.time.now_s + TERMS.ttl_s)


def test_offsets_beyond_32_bits_keep_their_value(shared: LedgerUnderTest) -> None:
    far = 2**52
    ledger = shared.connect()
    ledger.open({0: far})
    ledger.extend({0: far + 5})

    lease = acquired(ledger, "a", samples=3)
    ledger.release(lease, upto=far + 1, trained=1, late=0)

    assert extent(acquired(ledger, "a")) == (0, far + 1, far + 3)
    assert ledger.progress().watermarks == {0: far + 1}
    assert ledger.progress().ends == {0: far + 5}


def test_a_worker_reads_on_and_prefers_what_is_assigned_to_it(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 100, 1: 50, 2: 60})

    assert extent(acquired(ledger, "a", prefer=(1, 2))) == (2, 0, 10)
    assert extent(acquired(ledger, "a", prefer=(1, 2))) == (2, 10, 20)
    assert extent(acquired(ledger, "b")) == (0, 0, 10)
    assert extent(acquired(ledger, "b", prefer=(1,))) == (1, 0, 10)


def test_a_worker_whose_partitions_are_empty_helps_where_most_is_left(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 100, 1: 0, 2: 60})

    assert acquired(ledger, "a", prefer=(1,)).partition == 0


def test_a_partition_that_nobody_read_for_long_comes_first(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 10_000, 1: 3})
    for _ in range(10):
        assert acquired(ledger, "a", prefer=(0,)).partition == 0
        shared.time.pass_s(TERMS.patience_s / 10)

    assert acquired(ledger, "a", prefer=(0,)).partition == 1


def test_leases_become_shorter_while_partitions_wait_beyond_their_patience(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, dict.fromkeys(range(4), 1_000))

    def taken(samples: int, *, least: int) -> int:
        lease = ledger.acquire("a", samples=samples, prefer=(), least=least)
        return 0 if lease is None else lease.end - lease.start

    assert taken(120, least=50) == 120
    shared.keep_alive("a", for_s=2 * TERMS.patience_s)
    # Half of what was asked for, made up to a full batch with the 30 that the worker has unread.
    assert [taken(120, least=50) for _ in range(4)] == [70] * 4
    shared.keep_alive("a", for_s=20 * TERMS.patience_s)
    assert taken(400, least=1) == 100, "no less than a quarter"


def test_a_partition_with_less_than_a_batch_is_left_to_fill_for_a_moment(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 9, 1: 7})

    assert ledger.acquire("a", samples=30, prefer=(1,), least=10) is None
    shared.time.pass_s(TERMS.fill_s)
    ledger.extend({0: 10})

    preferred = ledger.acquire("a", samples=30, prefer=(1,), least=10)
    full = ledger.acquire("b", samples=30, prefer=(), least=10)
    assert preferred is not None
    assert full is not None
    assert (extent(preferred), extent(full)) == ((1, 0, 7), (0, 0, 10))


def test_a_full_batch_elsewhere_comes_before_half_a_one_at_home(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 50, 1: 7})

    lease = ledger.acquire("a", samples=30, prefer=(1,), least=10)

    assert lease is not None
    assert extent(lease) == (0, 0, 30)


def test_of_partitions_that_do_not_fill_the_one_that_waited_longest_comes_first(
    shared: LedgerUnderTest,
) -> None:
    ledger = opened(shared, {0: 0, 1: 5})
    shared.time.pass_s(TERMS.fill_s / 2)
    ledger.extend({0: 9})
    shared.time.pass_s(TERMS.fill_s)

    leases = [ledger.acquire("a", samples=30, prefer=(), least=10) for _ in range(3)]

    assert [lease and lease.partition for lease in leases] == [1, 0, None]


def test_what_was_given_back_is_not_left_to_fill(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 10})
    ledger.release(acquired(ledger, "a"), upto=8, trained=8, late=0)

    lease = ledger.acquire("b", samples=30, prefer=(), least=10)

    assert lease is not None
    assert extent(lease) == (0, 8, 10)


def test_what_was_given_back_comes_before_anything_new(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 100, 1: 1000})
    lease = acquired(ledger, "a", prefer=(0,))
    ledger.release(lease, upto=4, trained=4, late=1)

    assert extent(acquired(ledger, "b", samples=3)) == (0, 4, 7)
    assert extent(acquired(ledger, "b", samples=30)) == (0, 7, 10)
    assert acquired(ledger, "c").partition == 1
    assert (ledger.progress().trained, ledger.progress().late) == (4, 1)


def test_progress_adds_up(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 20, 1: 7})
    ledger.complete(acquired(ledger, "a", prefer=(1,)), trained=3, late=2, lost=4)
    first = acquired(ledger, "a")
    ledger.complete(acquired(ledger, "b"), trained=10, late=0)

    progress = ledger.progress()

    assert progress.watermarks == {0: 0, 1: 7}
    assert progress.ends == {0: 20, 1: 7}
    assert (progress.trained, progress.late, progress.repeated, progress.lost) == (13, 2, 0, 4)
    assert progress.epoch == first.epoch


def test_a_silent_worker_loses_its_leases_to_whoever_asks_next(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 20})
    silent = acquired(ledger, "silent")
    kept = acquired(ledger, "alive")
    shared.keep_alive("alive", for_s=TERMS.ttl_s)

    given_again = acquired(ledger, "alive")

    assert extent(given_again) == extent(silent)
    assert ledger.progress().repeated == 10
    ledger.complete(kept, trained=10, late=0)
    ledger.complete(given_again, trained=10, late=0)
    assert ledger.progress().watermarks == {0: 20}
    assert ledger.progress().trained == 20


def test_a_zombie_cannot_complete_what_was_given_to_another(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 10})
    zombie = acquired(shared.connect(), "zombie")
    shared.keep_alive("other", for_s=TERMS.ttl_s)
    acquired(ledger, "other")
    before = ledger.progress()

    with pytest.raises(LeaseLost):
        ledger.complete(zombie, trained=10, late=0)
    with pytest.raises(LeaseLost):
        ledger.release(zombie, upto=3, trained=3, late=0)

    assert ledger.progress() == before


def test_a_lease_of_another_epoch_is_lost(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 10})
    lease = acquired(ledger, "a")

    with pytest.raises(LeaseLost):
        ledger.complete(replace(lease, epoch=lease.epoch - 1), trained=10, late=0)

    ledger.complete(lease, trained=10, late=0)


@pytest.mark.parametrize("other", [{"worker": "b"}, {"start": 1}, {"end": 11}, {"partition": 1}])
def test_a_token_alone_completes_nothing(shared: LedgerUnderTest, other: dict[str, Any]) -> None:
    """A Redis restored from an older copy gives out tokens again, for other ranges."""
    ledger = opened(shared, {0: 10})
    lease = acquired(ledger, "a")

    with pytest.raises(LeaseLost):
        ledger.complete(replace(lease, **other), trained=1, late=0)

    assert ledger.progress().trained == 0


def test_after_an_outage_nobody_loses_a_lease_for_one_time_to_live(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 20})
    acquired(ledger, "a")
    late_riser = acquired(ledger, "b")
    shared.time.pass_s(100.0)

    ledger.renew("a")
    assert ledger.acquire("a", samples=10, prefer=()) is None

    shared.keep_alive("a", for_s=TERMS.ttl_s - 1)
    ledger.complete(late_riser, trained=10, late=0)


def test_one_that_leaves_keeps_its_leases_while_it_is_heard_and_none_beyond_its_word(
    shared: LedgerUnderTest,
) -> None:
    ledger = opened(shared, {0: 10})
    lease = acquired(ledger, "leaver")
    for _ in range(14):
        ledger.leave("leaver", within_s=14.0)  # the first word counts
        assert ledger.acquire("other", samples=10, prefer=()) is None
        shared.time.pass_s(1.0)

    assert extent(acquired(ledger, "other")) == extent(lease)


def test_one_that_leaves_and_falls_silent_loses_its_leases_as_anybody(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 10})
    lease = acquired(ledger, "leaver")
    ledger.leave("leaver", within_s=100.0)
    shared.keep_alive("other", for_s=TERMS.ttl_s)

    assert extent(acquired(ledger, "other")) == extent(lease)


def test_after_an_outage_one_that_leaves_gets_no_more_time_than_it_has(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 10})
    lease = acquired(ledger, "leaver")
    ledger.leave("leaver", within_s=14.0)
    shared.time.pass_s(8.0)
    shared.keep_alive("other", for_s=5.0)
    assert ledger.acquire("other", samples=10, prefer=()) is None
    shared.keep_alive("other", for_s=1.0)

    assert extent(acquired(ledger, "other")) == extent(lease)


def test_one_that_said_it_leaves_and_asks_all_the_same_is_given_work(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 20})
    acquired(ledger, "leaver")
    ledger.leave("leaver", within_s=3.0)

    assert extent(acquired(ledger, "leaver")) == (0, 10, 20)


def test_settling_twice_in_a_row_is_settling_once(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 20})
    done, part = acquired(ledger, "a"), acquired(ledger, "a")
    for _ in range(2):
        ledger.complete(done, trained=10, late=0)
    for _ in range(2):
        ledger.release(part, upto=15, trained=5, late=0)

    assert ledger.progress().trained == 15
    assert extent(acquired(ledger, "b")) == (0, 15, 20)
    assert ledger.acquire("b", samples=10, prefer=()) is None


def test_opening_again_changes_nothing_for_known_partitions(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 10})
    ledger.complete(acquired(ledger, "a"), trained=10, late=0)
    before = ledger.progress()

    shared.time.pass_s(5.0)
    shared.connect().open({0: 0, 3: 4})

    after = ledger.progress()
    assert after.watermarks == {**before.watermarks, 3: 4}
    assert after.epoch == before.epoch


def test_a_new_ledger_is_newer_than_the_last_one_heard_of(shared: LedgerUnderTest) -> None:
    ledger = shared.connect()
    ledger.open({0: 0}, after_epoch=2**51)

    assert ledger.progress().epoch == 2**51 + 1


def test_an_end_never_moves_back(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 10})

    ledger.extend({0: 3})

    assert ledger.progress().ends == {0: 10}


def test_an_unknown_partition_is_refused_and_nothing_changes(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 10})

    with pytest.raises(NotOpened, match="partition 9") as refusal:
        ledger.extend({0: 20, 9: 5})

    assert refusal.value.partition == 9
    assert ledger.progress().ends == {0: 10}


def test_a_ledger_that_was_never_opened_says_so(shared: LedgerUnderTest) -> None:
    ledger = shared.connect()
    with pytest.raises(NotOpened):
        ledger.acquire("a", samples=1, prefer=())
    with pytest.raises(NotOpened):
        ledger.extend({0: 1})
    with pytest.raises(NotOpened):
        ledger.progress()


def test_counts_that_cannot_be_are_refused(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 10})
    lease = acquired(ledger, "a")

    with pytest.raises(ValueError, match="cannot be of a lease"):
        ledger.complete(lease, trained=11, late=0)
    with pytest.raises(ValueError, match="outside"):
        ledger.release(lease, upto=11, trained=0, late=0)
    with pytest.raises(ValueError, match="at least one"):
        ledger.acquire("a", samples=0, prefer=())

    assert ledger.progress().trained == 0


def test_one_worker_at_a_time_commits_and_not_too_often(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 1})
    assert ledger.take_turn("a", every_s=1.0)
    assert not ledger.take_turn("b", every_s=0.0)
    ledger.end_turn("b")
    assert not ledger.take_turn("b", every_s=0.0), "it was not b's turn to end"
    ledger.end_turn("a")
    assert not ledger.take_turn("b", every_s=1.0)
    shared.time.pass_s(1.0)
    assert ledger.take_turn("b", every_s=1.0)
    shared.time.pass_s(TERMS.turn_s)
    assert ledger.take_turn("a", every_s=1.0), "b has hung: its turn is over"


def test_threads_that_race_never_share_an_offset(shared: LedgerUnderTest) -> None:
    opened(shared, {0: 400, 1: 300})
    given: list[Lease] = []

    def work(worker: str) -> None:
        ledger = shared.connect()
        while (lease := ledger.acquire(worker, samples=7, prefer=())) is not None:
            given.append(lease)
            ledger.complete(lease, trained=lease.end - lease.start, late=0)

    threads = [Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for partition, end in ((0, 400), (1, 300)):
        ranges = sorted((lease.start, lease.end) for lease in given if lease.partition == partition)
        assert (ranges[0][0], ranges[-1][1]) == (0, end)
        assert all(left[1] == right[0] for left, right in pairwise(ranges))
    assert shared.connect().progress().trained == 700
