"""The ledger's rules, one sentence each. What holds in every history is in test_ledger_histories.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from shuffler.errors import LeaseLost, NotOpened
from shuffler.lease import Lease
from shuffler.ledger import Ledger, Terms

TTL_S = 10.0
PATIENCE_S = 100.0


def ledger_with(ends: dict[int, int], *, patience_s: float = PATIENCE_S) -> Ledger:
    """Partitions that start at 0 and reach to `ends`."""
    ledger = Ledger(Terms(ttl_s=TTL_S, patience_s=patience_s))
    ledger.open(dict.fromkeys(ends, 0), now_s=0.0)
    ledger.extend(ends, now_s=0.0)
    return ledger


def acquired(
    ledger: Ledger, worker: str, *, samples: int = 10, prefer: Sequence[int] = (), now_s: float = 0.0
) -> Lease:
    lease = ledger.acquire(worker, samples=samples, prefer=prefer, now_s=now_s)
    assert lease is not None
    return lease


def keep_alive(ledger: Ledger, worker: str, *, until_s: float) -> None:
    for second in range(int(until_s)):
        ledger.renew(worker, now_s=second)


def extent(lease: Lease) -> tuple[int, int, int]:
    return lease.partition, lease.start, lease.end


def test_a_lease_is_no_longer_than_asked_for_nor_than_what_is_there() -> None:
    ledger = ledger_with({0: 15})

    assert extent(acquired(ledger, "a")) == (0, 0, 10)
    assert extent(acquired(ledger, "b")) == (0, 10, 15)
    assert ledger.acquire("c", samples=10, prefer=(), now_s=0.0) is None


def test_a_worker_reads_on_where_it_was_rather_than_jump_to_a_little_more() -> None:
    ledger = ledger_with({0: 40, 1: 39})
    assert acquired(ledger, "a").partition == 0

    assert extent(acquired(ledger, "a")) == (0, 10, 20)


def test_a_worker_leaves_a_drained_partition_for_the_most_behind() -> None:
    ledger = ledger_with({0: 12, 1: 5})
    acquired(ledger, "a")  # leaves 2 in partition 0
    ledger.extend({1: 50}, now_s=0.0)

    assert acquired(ledger, "a").partition == 1


def test_preferred_partitions_come_before_those_more_behind() -> None:
    ledger = ledger_with({0: 1000, 1: 5, 2: 20})

    assert acquired(ledger, "a", prefer=(1, 2)).partition == 2


def test_a_worker_goes_home_once_its_preferred_partition_has_work() -> None:
    ledger = ledger_with({0: 1000, 1: 0})
    assert acquired(ledger, "a", prefer=(1,)).partition == 0
    ledger.extend({1: 5}, now_s=0.0)

    assert acquired(ledger, "a", prefer=(1,)).partition == 1


def test_a_partition_that_nobody_read_for_long_comes_first() -> None:
    ledger = ledger_with({0: 10_000, 1: 3}, patience_s=5.0)
    for second in range(5):
        assert acquired(ledger, "a", prefer=(0,), now_s=second).partition == 0

    assert acquired(ledger, "a", prefer=(0,), now_s=5.0).partition == 1


def test_what_was_given_back_is_given_out_before_anything_new() -> None:
    ledger = ledger_with({0: 100, 1: 1000})
    lease = acquired(ledger, "a", prefer=(0,))
    ledger.release(lease, upto=4, trained=4, late=0)

    assert extent(acquired(ledger, "b", samples=3)) == (0, 4, 7)
    assert extent(acquired(ledger, "b", samples=30)) == (0, 7, 10)
    assert acquired(ledger, "c").partition == 1


def test_the_watermark_waits_for_the_oldest_range_out() -> None:
    ledger = ledger_with({0: 30})
    first, second = acquired(ledger, "a"), acquired(ledger, "b")
    ledger.complete(second, trained=10, late=0)
    assert ledger.progress().watermarks == {0: 0}

    ledger.complete(first, trained=10, late=0)

    assert ledger.progress().watermarks == {0: 20}


def test_a_silent_worker_loses_its_leases_and_one_that_renews_keeps_them() -> None:
    ledger = ledger_with({0: 20})
    silent, alive = acquired(ledger, "silent"), acquired(ledger, "alive")
    keep_alive(ledger, "alive", until_s=TTL_S)

    assert ledger.expire(now_s=TTL_S - 0.01) == ()
    assert ledger.expire(now_s=TTL_S) == (silent,)
    assert ledger.leases() == (alive,)


def test_a_zombie_cannot_complete_what_was_given_to_another() -> None:
    ledger = ledger_with({0: 10})
    zombie = acquired(ledger, "zombie")
    keep_alive(ledger, "other", until_s=TTL_S)
    given_again = acquired(ledger, "other", now_s=TTL_S)
    before = ledger.progress()

    with pytest.raises(LeaseLost, match="zombie no longer holds"):
        ledger.complete(zombie, trained=10, late=0)
    with pytest.raises(LeaseLost):
        ledger.release(zombie, upto=5, trained=5, late=0)

    assert ledger.progress() == before
    ledger.complete(given_again, trained=10, late=0)
    assert ledger.progress().trained == 10
    assert ledger.progress().repeated == 10


def test_a_new_ledger_is_newer_than_the_clock_and_than_the_last_one_heard_of() -> None:
    epochs = []
    for after in (0, 10**15):
        ledger = Ledger(Terms())
        ledger.open({0: 0}, after_epoch=after, now_s=1_700_000_000.0)
        ledger.open({1: 0}, after_epoch=10**16, now_s=1_800_000_000.0)  # by then it is not new
        epochs.append(ledger.progress().epoch)

    assert epochs == [1_700_000_000_000, 10**15 + 1]


def test_a_lease_of_an_older_epoch_is_lost_even_when_its_token_is_in_use() -> None:
    ledger = ledger_with({0: 10})
    lease = acquired(ledger, "a")

    with pytest.raises(LeaseLost):
        ledger.complete(replace(lease, epoch=lease.epoch - 1), trained=10, late=0)


def test_after_silence_of_everybody_nobody_loses_a_lease_for_one_time_to_live() -> None:
    ledger = ledger_with({0: 20})
    acquired(ledger, "a")
    acquired(ledger, "b")
    outage_s = 100.0

    ledger.renew("a", now_s=outage_s)  # a is the first to get through again

    assert ledger.expire(now_s=outage_s) == (), "b was not even given the chance to renew"


def test_when_all_workers_died_their_leases_return_after_a_time_to_live() -> None:
    ledger = ledger_with({0: 10})
    dead = acquired(ledger, "dead")
    assert ledger.acquire("new", samples=10, prefer=(), now_s=100.0) is None
    for second in range(101, 110):
        ledger.renew("new", now_s=second)

    assert extent(acquired(ledger, "new", now_s=110.0)) == extent(dead)


def test_completing_twice_in_a_row_is_completing_once() -> None:
    ledger = ledger_with({0: 10})
    lease = acquired(ledger, "a")
    ledger.complete(lease, trained=10, late=1)

    ledger.complete(lease, trained=10, late=1)

    assert (ledger.progress().trained, ledger.progress().late) == (10, 1)


def test_releasing_twice_in_a_row_gives_back_once() -> None:
    ledger = ledger_with({0: 10})
    lease = acquired(ledger, "a")
    ledger.release(lease, upto=5, trained=5, late=0)
    ledger.release(lease, upto=5, trained=5, late=0)

    assert extent(acquired(ledger, "b")) == (0, 5, 10)
    assert ledger.acquire("c", samples=10, prefer=(), now_s=0.0) is None


def test_lost_offsets_are_counted_apart_from_trained_ones() -> None:
    ledger = ledger_with({0: 10})

    ledger.complete(acquired(ledger, "a"), trained=4, late=2, lost=6)

    progress = ledger.progress()
    assert (progress.trained, progress.late, progress.lost) == (4, 2, 6)
    assert progress.watermarks == {0: 10}


def test_opening_again_leaves_known_partitions_as_they_are() -> None:
    ledger = ledger_with({0: 10})
    acquired(ledger, "a")

    ledger.open({0: 0, 1: 5}, now_s=1.0)

    assert ledger.progress().ends == {0: 10, 1: 5}
    assert ledger.acquire("b", samples=10, prefer=(), now_s=1.0) is None


def test_an_end_never_moves_back() -> None:
    ledger = ledger_with({0: 10})

    ledger.extend({0: 3}, now_s=1.0)

    assert ledger.progress().ends == {0: 10}


def test_an_unknown_partition_is_refused_and_nothing_changes() -> None:
    ledger = ledger_with({0: 10})

    with pytest.raises(NotOpened, match="partition 9"):
        ledger.extend({0: 20, 9: 5}, now_s=0.0)

    assert ledger.progress().ends == {0: 10}


def test_a_ledger_that_was_never_opened_says_so() -> None:
    with pytest.raises(NotOpened, match="open"):
        Ledger(Terms()).acquire("a", samples=1, prefer=(), now_s=0.0)


@pytest.mark.parametrize(
    ("trained", "late", "lost"), [(11, 0, 0), (5, 6, 0), (-1, 0, 0), (5, 0, 6), (0, 0, -1), (5, -1, 0)]
)
def test_counts_that_cannot_be_are_refused(trained: int, late: int, lost: int) -> None:
    ledger = ledger_with({0: 10})
    lease = acquired(ledger, "a")

    with pytest.raises(ValueError, match="cannot be of a lease"):
        ledger.complete(lease, trained=trained, late=late, lost=lost)

    assert ledger.leases() == (lease,)


def test_one_worker_at_a_time_has_the_turn_to_commit() -> None:
    ledger = Ledger(Terms(turn_s=10.0))

    assert ledger.take_turn("a", every_s=1.0, now_s=0.0)
    assert not ledger.take_turn("b", every_s=0.0, now_s=9.9)
    assert ledger.take_turn("b", every_s=0.0, now_s=10.0), "a has hung: its turn is over"


def test_the_turn_comes_round_no_sooner_than_asked_for() -> None:
    ledger = Ledger(Terms())
    assert ledger.take_turn("a", every_s=1.0, now_s=0.0)
    ledger.end_turn("a", now_s=0.2)

    assert not ledger.take_turn("b", every_s=1.0, now_s=1.1)
    assert ledger.take_turn("b", every_s=1.0, now_s=1.2)


def test_ending_a_turn_that_passed_to_another_changes_nothing() -> None:
    ledger = Ledger(Terms(turn_s=10.0))
    ledger.take_turn("a", every_s=0.0, now_s=0.0)
    ledger.take_turn("b", every_s=0.0, now_s=10.0)

    ledger.end_turn("a", now_s=10.1)

    assert not ledger.take_turn("c", every_s=0.0, now_s=10.2)
