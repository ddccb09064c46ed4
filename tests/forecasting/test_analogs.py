"""Seasons that were like today say how it goes on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forecasting.analogs import SHARPNESS, analogs_of, by_lead, inputs_of_analogs, path_of
from forecasting.batch import PATH_BINS, SEASONS_LIKE, Batch, batch_at
from forecasting.calendar import Calendar
from forecasting.features import describe, level_of, targets_of
from forecasting.forecast import LEVELS
from forecasting.grid import KINDS, Grid
from forecasting.history import Rates
from forecasting.learned import lessons_from
from forecasting.window import train_window
from tests.forecasting.worlds import DAY, GRID, history

NOON = DAY // 2
TARGETS = KINDS * len(GRID.leads)
NO_CLOCKS: list[np.ndarray[tuple[int, ...], np.dtype[np.int64]] | int] = [0] * SEASONS_LIKE


def days_of(kinds: list[bool], *, level: float = 20.0) -> Rates:
    """Even days; on those of the one kind there is a bump in the morning, and traffic trebles at noon."""
    days = []
    for busy in kinds:
        rates = np.full(DAY, level)
        if busy:
            rates[NOON - 24 : NOON - 18] *= 1.5
            rates[NOON + 2 : NOON + 30] *= 3.0
        days.append(rates)
    return np.concatenate(days)


def before_noon(rates: Rates) -> Batch:
    """The last day, seen up to noon."""
    return batch_at(GRID, history(rates), np.array([len(rates) - DAY + NOON]))


def means_of(batch: Batch) -> Rates:
    """(KINDS, leads) of the sharpest look."""
    told = analogs_of(batch, level_of(batch).offset, NO_CLOCKS)
    at = 2 * (len(SHARPNESS) - 1) * TARGETS
    return np.asarray(told[0, at : at + TARGETS].reshape(KINDS, -1))


@pytest.mark.parametrize("today", [True, False])
def test_a_day_goes_on_like_those_whose_morning_was_the_same(today: bool) -> None:
    """Two of seven days are busy: a mean over all of them fits neither kind."""
    kinds = [False, True, False, False, True, False, False]

    rates, peaks = means_of(before_noon(days_of([*kinds, today])))

    expected = np.log(3.0) if today else 0.0
    assert rates[4] == pytest.approx(expected, abs=0.25)
    assert peaks[0] == pytest.approx(expected, abs=0.25)


def test_a_day_like_today_is_found_weeks_ago() -> None:
    """Twenty quiet days lie between: a week would not do."""
    kinds = [True, True, True, *[False] * 20]

    rates, _ = means_of(before_noon(days_of([*kinds, True])))

    assert rates[4] == pytest.approx(np.log(3.0), abs=0.25)


def test_the_path_of_days_like_today_goes_on_and_today_is_held_against_it() -> None:
    kinds = [False, True, False, False, True, False, False]
    rates = days_of([*kinds, True])
    rates[-DAY + NOON - 6 : -DAY + NOON - 3] *= 1.2
    batch = before_noon(rates)

    differed, ahead = path_of(analogs_of(batch, level_of(batch).offset, NO_CLOCKS))

    unlike = np.arange(PATH_BINS - 6, PATH_BINS - 3)
    same = np.delete(differed[0], unlike)
    assert (differed[0, unlike] > same.max() + 0.05).all()
    assert np.ptp(same) < 0.15  # the bump of the morning is theirs as well
    assert (ahead[0, 2:] - ahead[0, 0] > 0.6 * np.log(3.0)).all()


def test_what_is_told_by_lead_and_of_the_whole_is_all_that_is_told() -> None:
    batch = before_noon(days_of([False, True, False, True]))
    told = analogs_of(batch, level_of(batch).offset, NO_CLOCKS)

    leads, whole = by_lead(told, len(GRID.leads))

    assert leads.shape == (1, len(GRID.leads), 2 * len(SHARPNESS) * KINDS)
    assert leads.size + whole.size == told.size
    at = 2 * (len(SHARPNESS) - 1) * KINDS
    np.testing.assert_array_equal(leads[0, :, at : at + KINDS].T, means_of(batch))


def test_how_much_traffic_there_is_does_not_matter() -> None:
    kinds = [False, True, False, False, True, False, False, True]

    small, large = (before_noon(days_of(kinds, level=level)) for level in (20.0, 2000.0))

    np.testing.assert_allclose(means_of(small), means_of(large), atol=1e-6)


def test_what_comes_after_now_is_not_looked_at() -> None:
    rates = days_of([False, True, False, False, True, False, False, True])
    other = rates.copy()
    other[-DAY + NOON :] = 1.0

    np.testing.assert_array_equal(means_of(before_noon(rates)), means_of(before_noon(other)))


def test_a_topic_younger_than_a_season_has_no_analogs() -> None:
    rates = days_of([True])[: NOON + 1]
    batch = batch_at(GRID, history(rates), np.array([NOON]))

    told = analogs_of(batch, level_of(batch).offset, NO_CLOCKS)

    assert told.shape == (1, inputs_of_analogs(GRID))
    assert not told.any()


def test_a_season_shorter_than_the_horizon_is_passed_over_in_whole_ones() -> None:
    """Half-hours that repeat: what followed is only known some of them ago."""
    grid = Grid(step_s=300.0, horizon_s=4500.0, season_s=1800.0)
    rates = np.tile(np.array([10.0, 10.0, 10.0, 40.0, 10.0, 10.0]), 60)
    batch = batch_at(grid, history(rates), np.array([len(rates) - 60]))
    other = rates.copy()
    other[-60:] = 1000.0

    told = analogs_of(batch, level_of(batch).offset, NO_CLOCKS)
    again = analogs_of(batch_at(grid, history(other), batch.end), level_of(batch).offset, NO_CLOCKS)

    assert told.any()
    np.testing.assert_array_equal(told, again)


def test_clocks_that_were_put_back_move_the_season_looked_at() -> None:
    rates = days_of([True] * 8)
    moved = np.concatenate([rates[: 7 * DAY], np.full(12, 20.0), rates[7 * DAY : -12]])  # an hour later
    batch = batch_at(GRID, history(moved), np.array([7 * DAY + NOON + 12]))
    offset = level_of(batch).offset

    by_the_sun, by_the_wall = (
        analogs_of(batch, offset, NO_CLOCKS),
        analogs_of(batch, offset, [-12] * SEASONS_LIKE),
    )

    apart = -2  # the logarithm of how unlike the likest season is
    assert by_the_wall[0, apart] < by_the_sun[0, apart] - 1


def test_the_windows_read_them() -> None:
    """Days of two kinds in no order: shown no analogs, the same networks answer worse."""
    draw = np.random.default_rng(3)
    kinds = [bool(kind) for kind in draw.random(24) < 0.4]
    rates = days_of(kinds) * np.exp(draw.normal(scale=0.05, size=24 * DAY))
    taught = lessons_from(GRID, {"a": history(rates[: 16 * DAY])}, Calendar(), rows_max=1200)
    batch = batch_at(GRID, history(rates), np.arange(16 * DAY, 23 * DAY, 7))
    features, came = describe(batch, Calendar()), targets_of(batch, rates)
    window = train_window(taught, steps=200)

    shown = window.quantiles(batch, features)
    blind = window.quantiles(batch, replace(features, analogs=np.zeros_like(features.analogs)))

    assert _loss(shown, came) < 0.9 * _loss(blind, came)


def _loss(said: Rates, came: Rates) -> float:
    error = came - said[..., LEVELS.index(0.95)]
    return float(np.nanmean(np.maximum(0.95 * error, -0.05 * error)))
