"""Late samples are counted as their leases complete, by when they arrived."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.meter.completed import CompletedLeases
from services.meter.lateness import Lateness
from services.meter.points import EndPoints
from shuffler.lease import Lease, Progress
from shuffler.ledger import Ledger, Terms

SLO_S = 60.0


def points_at(rate: int, *, from_s: int = 0, until_s: int = 200) -> EndPoints:
    """A partition that gets `rate` samples a second, looked at every second."""
    points = EndPoints()
    for at_s in range(from_s, until_s):
        points.add(float(at_s), np.array([rate * at_s]))
    return points


def progress(watermark: int, *beyond: tuple[int, int], epoch: int = 1) -> Progress:
    return Progress(
        {0: watermark}, {}, 0, late=0, repeated=0, lost=0, epoch=epoch, beyond={0: beyond} if beyond else {}
    )


def count(lateness: Lateness, points: EndPoints, seen: Progress, at_s: float, slo_s: float = SLO_S) -> None:
    lateness.take(seen, points, at_s=at_s, epoch_s=1e9, fresh_within_s=slo_s, records_per_offset=1.0)


def test_what_arrived_longer_ago_than_promised_is_late() -> None:
    lateness, points = Lateness(), points_at(10)
    count(lateness, points, progress(0), 99.0)

    count(lateness, points, progress(800), 101.0)  # at second 100, the samples of seconds 0 to 80

    assert (lateness.trained_total, lateness.late_total) == (800, 400)
    assert lateness.share == 0.5


def test_a_fresh_lease_is_fresh_though_an_old_one_holds_the_watermark() -> None:
    lateness, points = Lateness(), points_at(10)
    count(lateness, points, progress(0), 99.0)

    count(lateness, points, progress(0, (900, 1000)), 101.0)
    assert (lateness.trained_total, lateness.late_total) == (100, 0)

    count(lateness, points, progress(1000), 103.0)  # the old one completes: it alone is late, in part
    assert (lateness.trained_total, lateness.late_total) == (1000, 420)


def test_samples_from_before_the_meter_count_once_it_knows_them_to_be_late() -> None:
    lateness, points = Lateness(), points_at(10, from_s=100)
    count(lateness, points, progress(0), 110.0)

    count(lateness, points, progress(500), 112.0)
    assert lateness.share is None, "they may have been late or not"

    count(lateness, points, progress(700), 170.0)
    assert (lateness.trained_total, lateness.late_total) == (0, 0)
    count(lateness, points, progress(900), 172.0)
    assert (lateness.trained_total, lateness.late_total) == (200, 200), (
        "older than the meter, and that is old"
    )


def test_another_promise_holds_from_the_next_lease_on() -> None:
    lateness, points = Lateness(), points_at(10)
    count(lateness, points, progress(800), 99.0)
    count(lateness, points, progress(900), 101.0, slo_s=60.0)
    assert lateness.late_total == 0

    count(lateness, points, progress(1000), 103.0, slo_s=5.0)

    assert lateness.late_total == pytest.approx(70, abs=10)


def test_a_new_ledger_starts_a_new_comparison() -> None:
    lateness, points = Lateness(), points_at(10)
    count(lateness, points, progress(800), 99.0)

    count(lateness, points, progress(0, epoch=2), 100.0)
    count(lateness, points, progress(100, epoch=2), 101.0)

    assert lateness.trained_total == 100


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["take", "complete", "half", "look"]))))
def test_every_offset_is_told_once_and_none_that_is_not_done(steps: list[tuple[int, str]]) -> None:
    """Whatever workers do between two looks: nothing twice, nothing too early, in the end everything."""
    ledger, book, held, told = Ledger(Terms(ttl_s=1e9)), CompletedLeases(), list[Lease](), list[int]()
    done: set[int] = set()
    ledger.open({0: 0}, now_s=0.0)
    ledger.extend({0: 100}, now_s=0.0)
    book.take(ledger.progress(), at_s=0.0)
    for number, (which, deed) in enumerate([*steps, (0, "look")]):
        if deed == "take" and (lease := ledger.acquire("w", samples=7, prefer=(), now_s=0.0)):
            held.append(lease)
        elif deed in ("complete", "half") and held:
            lease = held.pop(which % len(held))
            upto = lease.end if deed == "complete" else (lease.start + lease.end) // 2
            ledger.release(lease, upto=upto, trained=upto - lease.start, late=0)
            done |= set(range(lease.start, upto))
        elif deed == "look":
            completed = book.take(ledger.progress(), at_s=float(number + 1))
            told += [offset for _, start, end in completed.ranges for offset in range(start, end)]

    assert len(told) == len(set(told))
    assert set(told) == done
