"""The past from offsets by time: right where Kafka can tell, a gap where it cannot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from forecasting.history import TrafficHistory
from services.meter.backfill import BackfillPiece, BackfillTerms, rebuild
from services.meter.history import RateHistory
from services.meter.poll import UNKNOWN
from services.meter.recall import known_bins

NOW_S = 1_794_820_030.0
HOUR_S = 3600.0


class Log:
    """Partitions with the dates of all their records, answering as Kafka does."""

    def __init__(self, *dates_s: NDArray[np.float64], start: int = 0) -> None:
        self.dates = dates_s
        self.starts = np.full(len(dates_s), start, dtype=np.int64)
        self.ends = np.array([start + len(dates) for dates in dates_s], dtype=np.int64)
        self.lookups = 0
        self.asked: list[set[int]] = []
        # The first record from a time on is where the running maximum of the dates reaches it.
        self._highest = [np.maximum.accumulate(dates) if len(dates) else dates for dates in dates_s]
        self._start = start

    def ask(self, wanted: Sequence[tuple[int, float]]) -> Sequence[int]:
        assert len({partition for partition, _ in wanted}) == len(wanted), "each partition once in a call"
        self.lookups += len(wanted)
        self.asked.append({partition for partition, _ in wanted})
        return [self._start + int(np.searchsorted(self._highest[p], at_s)) for p, at_s in wanted]


def evenly(rate_per_s: float, hours: float, *, until_s: float = NOW_S) -> NDArray[np.float64]:
    return np.sort(until_s - np.arange(0, hours * HOUR_S, 1 / rate_per_s))


def run(
    log: Log, terms: BackfillTerms | None = None, **more: object
) -> tuple[RateHistory, list[BackfillPiece]]:
    rates = RateHistory(step_s=60.0)
    pieces = list(
        rebuild(log.ask, log.starts, log.ends, now_s=NOW_S, terms=terms or BackfillTerms(), **more)  # type: ignore[arg-type]
    )
    for piece in pieces:
        rates.seed(piece.history)
    return rates, pieces


def test_minutes_of_the_last_day_and_ten_minutes_before_fill_a_grid_of_minutes() -> None:
    past = run(Log(evenly(2.0, 50.0), evenly(1.0, 50.0)))[0].history()

    assert past.end_s == NOW_S // 60 * 60
    assert past.span_s == pytest.approx(50 * HOUR_S, abs=1200)
    assert past.known == len(past.rates)
    assert past.rates == pytest.approx(3.0, rel=0.05)


def test_a_change_is_seen_in_its_own_minute() -> None:
    quiet, busy = evenly(1.0, 5.0, until_s=NOW_S - HOUR_S), evenly(10.0, 1.0)

    past = run(Log(np.concatenate([quiet, busy])))[0].history()

    minute = int((NOW_S - HOUR_S - past.start_s) // 60)
    assert past.rates[minute - 1] == pytest.approx(1.0, rel=0.1)
    assert past.rates[minute + 1] == pytest.approx(10.0, rel=0.1)


def test_time_before_the_log_begins_is_not_silence() -> None:
    past = run(Log(evenly(2.0, 3.0), start=5000))[0].history()

    assert past.span_s == pytest.approx(3 * HOUR_S, abs=120)


def test_silence_within_the_log_is_silence() -> None:
    dates = np.concatenate([evenly(1.0, 1.0, until_s=NOW_S - 3 * HOUR_S), evenly(1.0, 1.0)])

    past = run(Log(dates))[0].history()

    middle = int((NOW_S - 2 * HOUR_S - past.start_s) // 60)
    assert past.rates[middle] == 0.0


def test_a_few_large_partitions_stand_for_all() -> None:
    log = Log(*[evenly(0.1 * (1 + p % 5), 2.0) for p in range(60)])

    past, _ = run(log)

    assert all(len(call) <= 16 for call in log.asked)
    true = sum(0.1 * (1 + p % 5) for p in range(60))
    assert np.nanmean(past.history().rates) == pytest.approx(true, rel=0.1)


def test_a_record_dated_in_the_future_makes_a_gap_and_not_silence() -> None:
    honest, poisoned = evenly(1.0, 4.0), evenly(1.0, 4.0)
    poisoned[len(poisoned) // 2] = NOW_S + 1e6

    alone = run(Log(poisoned))[0].history()
    beside = run(Log(honest, honest, poisoned))[0].history()

    recent = int(HOUR_S // 60)
    assert alone.known == pytest.approx(2 * 60, abs=3), "the two hours before the bad record"
    assert alone.end_s < NOW_S - 1.9 * HOUR_S or np.isnan(alone.rates[-recent:]).all()
    assert beside.rates[-recent:] == pytest.approx(3.0, rel=0.1), "the other partitions can tell"


def test_clocks_that_run_a_little_ahead_are_not_the_future() -> None:
    past = run(Log(evenly(1.0, 2.0, until_s=NOW_S + 20.0)))[0].history()

    assert past.known == len(past.rates)


def test_what_cannot_be_looked_up_is_a_gap() -> None:
    log = Log(evenly(1.0, 2.0))
    outage = (NOW_S - HOUR_S, NOW_S - HOUR_S / 2)

    def ask(wanted: Sequence[tuple[int, float]]) -> Sequence[int]:
        found = log.ask(wanted)
        return [
            UNKNOWN if outage[0] < at_s < outage[1] else o for (_, at_s), o in zip(wanted, found, strict=True)
        ]

    rates = RateHistory(step_s=60.0)
    for piece in rebuild(ask, log.starts, log.ends, now_s=NOW_S, terms=BackfillTerms()):
        rates.seed(piece.history)

    assert np.isnan(rates.history().rates).sum() == pytest.approx(31, abs=1)


def test_the_budget_is_kept_newest_first_and_a_second_run_goes_on() -> None:
    log = Log(*[evenly(1.0, 30.0) for _ in range(4)])
    terms = BackfillTerms(lookups_max=4 * 400)

    rates, pieces = run(log, terms)
    first = rates.history()
    assert log.lookups <= terms.lookups_max
    assert pieces[-1].finished
    assert first.end_s == NOW_S // 60 * 60
    assert first.span_s == pytest.approx(360 * 60, abs=3600)

    log.lookups = 0
    for piece in rebuild(log.ask, log.starts, log.ends, now_s=NOW_S, terms=terms, known=known_bins(first)):
        rates.seed(piece.history)
    assert log.lookups <= terms.lookups_max
    assert rates.history().span_s > first.span_s + 300 * 60


def test_a_week_fits_the_default_budget_and_progress_is_told() -> None:
    log = Log(*[evenly(0.02, 24 * 9.0) for _ in range(20)])

    rates, pieces = run(log)

    assert rates.history().span_s == pytest.approx(7 * 86_400, abs=1800)
    shares = [piece.done / piece.total for piece in pieces]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert pieces[-1].lookups == log.lookups < 40_000


def test_an_empty_topic_has_no_past() -> None:
    rates, pieces = run(Log(np.empty(0)))

    assert rates.history().known == 0
    assert pieces[-1].finished


def test_what_was_measured_is_not_asked_for_again() -> None:
    log = Log(evenly(1.0, 2.0))
    measured = TrafficHistory(start_s=NOW_S // 60 * 60 - 61 * 60, step_s=60.0, rates=np.full(61, 9.0))

    run(log, known=known_bins(measured))

    assert log.lookups == pytest.approx(60, abs=5)
