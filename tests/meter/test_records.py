"""Samples to an offset, learned from completed leases or from the ledger's totals."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.meter.records import FORGET_AFTER, RecordsPerOffset


def test_offsets_are_samples_until_there_is_evidence() -> None:
    ratio = RecordsPerOffset()
    ratio.saw(offsets=100, records=50)

    assert ratio.value == 1.0


def test_transactions_of_ten_make_ten_samples_of_eleven_offsets() -> None:
    ratio = RecordsPerOffset()
    for _ in range(200):
        ratio.saw(offsets=11, records=10)

    assert ratio.value == pytest.approx(10 / 11)


def test_a_producer_that_changes_its_ways_is_followed() -> None:
    ratio = RecordsPerOffset()
    ratio.saw(offsets=FORGET_AFTER, records=FORGET_AFTER // 2)
    for _ in range(80):
        ratio.saw(offsets=10_000, records=10_000)

    assert ratio.value == pytest.approx(1.0, abs=0.05)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 300)), min_size=30, max_size=200),
    st.sampled_from([1.0, 10 / 11, 0.5]),
)
def test_the_ledgers_totals_tell_it_though_leases_are_out(steps: list[tuple[int, int]], ratio: float) -> None:
    """What is trained runs ahead of the watermark by the leases that are done out of order."""
    learned = RecordsPerOffset()
    watermark = ahead = 0
    for step, out in steps:
        done = watermark + ahead + step
        watermark, ahead = max(watermark, done - out), done - max(watermark, done - out)
        learned.follow({0: watermark}, trained=round(done * ratio), lost=0)

    if watermark > 20_000:
        assert learned.value == pytest.approx(ratio, rel=0.02)
    assert 0 < learned.value <= 1


def test_totals_that_begin_anew_begin_a_new_count() -> None:
    learned = RecordsPerOffset()
    learned.follow({0: 5000}, trained=5000, lost=0)
    learned.follow({0: 0}, trained=0, lost=0)
    learned.follow({0: 3000}, trained=3000, lost=0)
    learned.follow({0: 6000, 1: 900}, trained=6900, lost=0)

    assert learned.value == 1.0


def test_offsets_that_kafka_deleted_are_not_held_against_it() -> None:
    learned = RecordsPerOffset()
    learned.follow({0: 0}, trained=0, lost=0)
    learned.follow({0: 10_000}, trained=5_000, lost=5_000)

    assert learned.value == 1.0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be"):
        RecordsPerOffset().saw(offsets=-1, records=0)
