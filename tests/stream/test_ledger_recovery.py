"""What every LeaseLedger does with samples that kill their workers, and with positions that are moved."""

from __future__ import annotations

import pytest

from services.stream.ports import LeaseLedger
from shuffler.errors import LeaseLost, NotOpened
from shuffler.lease import Completed, Lease
from tests.stream.conftest import TERMS, LedgerUnderTest
from tests.stream.test_ledger_contract import acquired, extent, opened


def lapse(shared: LedgerUnderTest, ledger: LeaseLedger, victim: str, *, samples: int) -> Lease:
    """A worker takes a lease and falls silent, while another is heard; the lease it lost."""
    lease = acquired(ledger, victim, samples=samples)
    shared.keep_alive("watch", for_s=TERMS.ttl_s)
    return lease


def test_completing_and_acquiring_are_one_step(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 30})
    first = acquired(ledger, "a")

    second = ledger.acquire("a", samples=10, prefer=(), completed=Completed(first, trained=9, late=2, lost=1))

    assert second is not None
    assert extent(second) == (0, 10, 20)
    progress = ledger.progress()
    assert (progress.trained, progress.late, progress.lost) == (9, 2, 1)
    assert progress.watermarks == {0: 10}


def test_with_a_lease_that_is_lost_nothing_is_acquired(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 20})
    lost = lapse(shared, ledger, "zombie", samples=10)
    acquired(ledger, "watch")
    before = ledger.progress()

    with pytest.raises(LeaseLost):
        ledger.acquire("zombie", samples=10, prefer=(), completed=Completed(lost, trained=10, late=0))

    assert ledger.progress() == before


def test_a_completion_may_be_told_again_with_the_next_lease(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 30})
    first = acquired(ledger, "a")
    ledger.complete(first, trained=10, late=0)

    again = ledger.acquire("a", samples=10, prefer=(), completed=Completed(first, trained=10, late=0))

    assert again is not None
    assert ledger.progress().trained == 10


def test_a_range_that_lapses_too_often_is_given_up_and_no_longer_holds_the_watermark(
    shared: LedgerUnderTest,
) -> None:
    ledger = opened(shared, {0: 1000})
    poison = 0  # the sample at this offset kills whoever trains it
    for number in range(TERMS.lapses_max):
        assert acquired_range_holds(lapse(shared, ledger, f"victim-{number}", samples=800), poison)

    trained = 0
    while (lease := ledger.acquire("watch", samples=800, prefer=())) is not None:
        assert lease.start > poison
        ledger.complete(lease, trained=lease.end - lease.start, late=0)
        trained += lease.end - lease.start
    progress = ledger.progress()
    ((start, end),) = progress.quarantined[0]
    assert start == poison
    assert end - start < 800 / 32, "far less than the first lease is given up"
    assert progress.trained == trained == 1000 - (end - start)
    assert progress.watermarks == {0: 1000}


def acquired_range_holds(lease: Lease, offset: int) -> bool:
    return lease.start <= offset < lease.end


def test_a_range_that_is_trained_at_last_is_not_given_up(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 10})
    for number in range(TERMS.lapses_max - 1):
        lapse(shared, ledger, f"victim-{number}", samples=10)

    while (lease := ledger.acquire("watch", samples=10, prefer=())) is not None:
        ledger.complete(lease, trained=lease.end - lease.start, late=0)

    assert ledger.progress().quarantined == {}
    assert ledger.progress().watermarks == {0: 10}


def test_a_range_given_back_in_order_keeps_its_count_of_lapses(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 10})
    lapse(shared, ledger, "victim", samples=10)
    again = acquired(ledger, "watch", samples=10)
    ledger.release(again, upto=4, trained=4, late=0)

    assert acquired(ledger, "watch", samples=10).lapses == 1


def test_after_a_reset_everything_that_was_out_is_lost_to_its_worker(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 100, 1: 50})
    moved = acquired(ledger, "a", samples=60, prefer=[0])
    other = acquired(ledger, "b", samples=20, prefer=[1])
    epoch = ledger.progress().epoch

    ledger.reset({0: 30}, {0: 100})

    for lease in (moved, other):
        with pytest.raises(LeaseLost):
            ledger.complete(lease, trained=lease.end - lease.start, late=0)
    progress = ledger.progress()
    assert progress.epoch > epoch
    assert progress.watermarks == {0: 30, 1: 0}
    assert extent(acquired(ledger, "b", samples=20)) == extent(other), "what came back is given out first"
    assert extent(acquired(ledger, "a", samples=70, prefer=[0])) == (0, 30, 100)


def test_a_clock_that_is_set_back_keeps_no_lease_no_turn_and_no_sample_waiting(
    shared: LedgerUnderTest,
) -> None:
    """As when Redis fails over to a machine whose clock is minutes behind."""
    ledger = opened(shared, {0: 10, 1: 3})
    acquired(ledger, "dead", prefer=(0,))
    assert ledger.take_turn("a", every_s=1.0)
    ledger.end_turn("a")

    shared.time.pass_s(-300.0)
    shared.keep_alive("a", for_s=TERMS.ttl_s + 1)

    assert extent(acquired(ledger, "a")) == (0, 0, 10)
    assert ledger.take_turn("a", every_s=1.0)
    left_to_fill = ledger.acquire("a", samples=10, least=10, prefer=())
    assert left_to_fill is not None
    assert extent(left_to_fill) == (1, 0, 3)


def test_a_reset_forgets_what_was_given_up_there(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 4})
    for number in range(TERMS.lapses_max):
        lapse(shared, ledger, f"victim-{number}", samples=1)
    ledger.acquire("watch", samples=4, prefer=())
    assert ledger.progress().quarantined

    ledger.reset({0: 0}, {0: 4})

    assert ledger.progress().quarantined == {}
    assert extent(acquired(ledger, "watch", samples=4)) == (0, 0, 4)


def test_a_reset_is_newer_than_the_last_epoch_heard_of(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 4})
    heard = ledger.progress().epoch + 10**9

    ledger.reset({0: 2}, {0: 4}, after_epoch=heard)

    assert ledger.progress().epoch == heard + 1


def test_a_reset_to_another_topic_counts_what_the_old_one_took_with_it(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 40})
    ledger.open({}, topic_id="first")
    ledger.open({}, topic_id="not this one")
    assert ledger.progress().topic_id == "first"

    ledger.reset({0: 0}, {0: 5}, topic_id="second", lost=40)

    progress = ledger.progress()
    assert (progress.topic_id, progress.lost, progress.ends) == ("second", 40, {0: 5})


def test_a_ledger_that_was_never_opened_cannot_be_reset(shared: LedgerUnderTest) -> None:
    with pytest.raises(NotOpened):
        shared.connect().reset({0: 0}, {0: 5})


def test_the_ledger_knows_whether_the_group_holds_its_watermark(shared: LedgerUnderTest) -> None:
    ledger = opened(shared, {0: 4})
    ledger.take_turn("a", every_s=0.0)
    ledger.end_turn("a", committed=False)
    assert not ledger.progress().committed

    ledger.take_turn("a", every_s=0.0)
    ledger.end_turn("a", committed=True)
    assert ledger.progress().committed

    ledger.reset({0: 1}, {0: 4})
    assert not ledger.progress().committed
