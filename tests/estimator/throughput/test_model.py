"""C(n), learned: what each situation that the design names does to it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from estimator.throughput import Bottleneck, Confidence, ThroughputModel, ThroughputWindow, knowledge
from estimator.throughput.fitted import Fitted, refit
from estimator.throughput.knowledge import REFIT_AT, REFIT_EVERY, WALL_HOLD_S
from estimator.throughput.speed_rows import ROWS_MAX
from estimator.throughput.window import point_of
from tests.estimator.throughput.pools import BATCH, Pool, contended, progress_only, taught

POOL = Pool(contended())
GUESS = ThroughputModel.guessed(1300.0)


def flat_beyond(workers: int, *, rate: float = 1000.0) -> Pool:
    """Linear up to `workers`, then a wall that no telemetry shows."""
    return Pool(lambda n: rate * min(n, workers))


# While a job keeps up, throughput is traffic


@pytest.mark.parametrize("load", [0.5, 0.7, 0.9])
def test_a_job_that_keeps_up_shows_its_capacity_by_how_busy_it_is(load: float) -> None:
    loads = [POOL.window(n, share * load) for share in (1.0, 0.6) for n in (4, 6, 8)]

    model = taught(GUESS, loads)

    assert model.samples_per_s(8) == pytest.approx(POOL.curve(8), rel=0.08)


def test_a_job_that_hardly_works_is_rather_taken_for_slower_than_for_faster() -> None:
    model = taught(GUESS, [POOL.window(n, load) for load in (0.2, 0.12) for n in (4, 6, 8)])

    assert 0.75 * POOL.curve(8) < model.samples_per_s(8) < 1.02 * POOL.curve(8)


@pytest.mark.parametrize("told", [0.97, 1.0])
def test_a_full_pool_is_as_fast_as_its_offsets_say_whatever_is_missing_of_its_busy_time(told: float) -> None:
    """Fractions cut off at 1 make samples too few by as much; clocks that miss time do not."""
    full = POOL.window(8)
    window = replace(
        full,
        busy=0.97 * 8,
        samples_per_s=told * full.samples_per_s,
        progress_per_s=full.samples_per_s,
    )

    point = point_of(window)

    assert point is not None
    assert point.busy == 8.0
    assert math.exp(point.log_speed) == pytest.approx(POOL.curve(8) / 8)


@pytest.mark.parametrize(("progress", "believed"), [(0.0, 0.98), (3.0, 1.02 / 0.97), (math.nan, 1.0)])
def test_offsets_are_believed_only_as_far_as_workers_bear_them_out(progress: float, believed: float) -> None:
    full = POOL.window(8)

    point = point_of(replace(full, busy=0.97 * 8, progress_per_s=progress * full.samples_per_s))

    assert point is not None
    assert math.exp(point.log_speed) == pytest.approx(believed * POOL.curve(8) / 8)


def test_without_telemetry_only_saturated_windows_count() -> None:
    keeping_up = [progress_only(POOL.window(n, 0.4)) for n in (2, 4, 8)]

    assert taught(GUESS, keeping_up).knowledge.rows == ()


def test_without_telemetry_saturated_windows_give_the_law() -> None:
    windows = [progress_only(POOL.window(n)) for n in (2, 3, 5, 8)]

    model = taught(GUESS, windows)

    assert model.samples_per_s(8) == pytest.approx(POOL.curve(8), rel=0.01)
    assert model.samples_per_s(12) == pytest.approx(POOL.curve(12), rel=0.03)


def test_one_size_without_telemetry_is_extrapolated_by_the_usual_contention_and_little_trusted() -> None:
    model = taught(GUESS, [progress_only(POOL.window(8))])

    assert model.confidence is Confidence.LOW
    assert model.samples_per_s(12) == pytest.approx(POOL.curve(12), rel=0.02)


# Step times and shards


def test_a_ceiling_that_the_shard_shows_is_known_before_it_binds() -> None:
    ceiling = 20_000.0
    pool = Pool(lambda n: min(1000.0 * n, ceiling), demand_s=1 / ceiling)

    model = taught(GUESS, [pool.window(6, 0.7)])

    assert model.samples_per_s(40) <= 1.02 * ceiling
    assert model.samples_per_s(9) == pytest.approx(9000.0, rel=0.05)


def test_step_times_give_the_law_a_second_size() -> None:
    steep = contended(contention=0.1)
    blind = taught(GUESS, [Pool(steep).window(8)])
    seeing = taught(GUESS, [Pool(steep, demand_s=1e-4).window(8)])

    assert blind.samples_per_s(12) > 1.1 * steep(12)
    assert seeing.samples_per_s(12) == pytest.approx(steep(12), rel=0.05)


# Where it has been seen, and where not


def test_a_staircase_is_known_where_it_was_walked() -> None:
    stairs = Pool(lambda n: 1000.0 * (3 * (n // 4) + min(n % 4, 3)))
    sizes = (3, 4, 5, 7, 8, 9)

    model = taught(GUESS, [stairs.window(n) for n in sizes], each=20)

    for n in sizes:
        assert model.samples_per_s(n) == pytest.approx(stairs.curve(n), rel=0.05), n


def test_throughput_that_falls_as_workers_are_added_ends_at_its_peak() -> None:
    pool = Pool(contended(coherency=0.004))
    peak = max(range(1, 40), key=pool.curve)

    model = taught(GUESS, [pool.window(n) for n in (4, 8, 12, 16, 20)], each=20)

    asked = model.workers_for(1e9, workers_max=64)
    assert abs(asked - peak) <= 3
    assert model.samples_per_s(asked) >= 0.97 * pool.curve(peak)


def test_extrapolation_reaches_half_as_far_again_or_two_more() -> None:
    two_sizes = [POOL.window(2), POOL.window(3)]

    assert taught(GUESS, two_sizes).reach() == 5
    assert taught(GUESS, [*two_sizes, POOL.window(10)]).reach() == 15


def test_it_reaches_twice_as_far_when_the_slo_is_broken_or_only_one_size_was_seen() -> None:
    model = taught(GUESS, [POOL.window(8), POOL.window(10)])

    assert model.reach(slo_broken=True) == 20
    assert taught(GUESS, [POOL.window(10)]).reach() == 20


def test_before_anything_was_seen_the_operators_guess_has_no_reach_to_keep_to() -> None:
    assert GUESS.reach() is None
    assert GUESS.workers_for(20_000.0, workers_max=64) > 15


def test_a_demand_beyond_reach_gets_the_reach_and_the_next_tick_sees_further() -> None:
    model = taught(GUESS, [POOL.window(4), POOL.window(6)])

    assert model.workers_for(30_000.0, workers_max=64) == 9


def test_a_curve_that_promises_nothing_beyond_what_was_seen_is_put_to_the_test_when_the_slo_is_broken() -> (
    None
):
    steep = Pool(contended(contention=0.15))
    model = taught(GUESS, [steep.window(n) for n in (4, 6, 9)])

    assert model.workers_for(1e6, workers_max=64, slo_broken=True) == 18


def test_one_more_than_there_may_be_says_that_the_limit_binds() -> None:
    model = taught(GUESS, [POOL.window(4), POOL.window(6)])

    assert model.workers_for(30_000.0, workers_max=8) == 9


# The margin


def test_predictions_that_come_true_narrow_the_margin_and_wrong_ones_widen_it() -> None:
    true = taught(GUESS, [POOL.window(n) for n in (2, 4, 6, 8, 10)])
    failing = flat_beyond(3)
    wrong = taught(GUESS, [failing.window(n) for n in (2, 3, 5, 8, 12)])

    assert true.margin(15) < wrong.margin(15)
    assert wrong.knowledge.foresight.error_sd > 2 * true.knowledge.foresight.error_sd


def test_the_margin_grows_with_the_distance_from_what_was_seen() -> None:
    model = taught(GUESS, [POOL.window(n) for n in (4, 6, 8)])

    margins = [model.margin(n) for n in (6, 8, 10, 12, 16)]
    assert margins == sorted(margins)
    assert margins[0] < 0.02 < margins[-1]


def test_however_often_one_size_is_seen_confidence_stays_low_and_with_step_times_medium() -> None:
    assert taught(GUESS, [POOL.window(8)], each=500).confidence is Confidence.LOW
    seeing = Pool(contended(), demand_s=2e-5)
    assert taught(GUESS, [seeing.window(8)], each=500).confidence is Confidence.MEDIUM


def test_three_sizes_and_predictions_that_came_true_make_it_high() -> None:
    assert taught(GUESS, [POOL.window(n) for n in (4, 6, 8, 10)]).confidence is Confidence.HIGH


# Change


def test_a_model_that_became_slower_is_forgotten_within_a_few_windows() -> None:
    before = taught(GUESS, [POOL.window(n) for n in (4, 6, 8)], each=40)
    slower = Pool(contended(600.0))

    after = taught(before, [slower.window(8)], each=8)

    assert after.knowledge.drift.alarms == 1
    assert after.samples_per_s(8) == pytest.approx(slower.curve(8), rel=0.02)
    assert after.samples_per_s(4) == pytest.approx(slower.curve(4), rel=0.1)


def test_noise_is_no_drift() -> None:
    model = GUESS
    for tick in range(3000):
        wave = 1 + 0.05 * math.sin(12.9898 * tick) * math.cos(78.233 * tick)
        window = POOL.window(6, 0.7, at_s=float(tick))
        model = model.seen(replace(window, busy=0.7 * 6 * wave))

    assert model.knowledge.drift.alarms == 0


def test_a_load_that_changes_is_no_drift_where_load_slows_workers() -> None:
    """Speeds differ within one row by what the law explains."""
    curve, model = contended(contention=0.1), GUESS
    for tick in range(600):
        busy = 20 * (0.76 + 0.12 * (1 + math.sin(tick / 15)))
        speed = curve(1) / (1 + 0.1 * (busy - 1))
        window = ThroughputWindow(at_s=10.0 * tick, ready=20, samples_per_s=busy * speed, busy=busy)
        model = model.seen(window)

    assert model.knowledge.drift.alarms == 0


def test_another_batch_size_is_another_curve() -> None:
    before = taught(GUESS, [POOL.window(n) for n in (4, 6, 8)])

    after = before.seen(replace(Pool(contended(1500.0)).window(8), at_s=1e5, batch=4 * BATCH))

    assert {row.workers for row in after.knowledge.rows} == {8}
    assert after.samples_per_s(8) == pytest.approx(contended(1500.0)(8), rel=0.05)


def test_rows_not_seen_for_longer_than_a_week_are_dropped_and_there_are_never_too_many() -> None:
    model = taught(GUESS, [POOL.window(n, 0.3 + 0.2 * (n % 4)) for n in range(1, 100)], each=1)
    assert len(model.knowledge.rows) == ROWS_MAX

    later = model.seen(replace(POOL.window(99, 0.9), at_s=(model.knowledge.at_s or 0.0) + 30 * 86_400))

    assert len(later.knowledge.rows) == 1


def test_a_pool_that_stays_as_it_is_is_fitted_again_once_an_hour_and_not_with_each_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fits: list[int] = []

    def counting(*known: Any, **told: Any) -> Fitted:
        fits.append(len(known[0]))
        return refit(*known, **told)

    monkeypatch.setattr(knowledge, "refit", counting)
    model = ThroughputModel.guessed(1000.0)
    for place in range(600):
        model = model.seen(ThroughputWindow(10.0 * place, 8, 5600.0, busy=6.4))

    assert len(fits) <= len(REFIT_AT) + 600 // REFIT_EVERY


def test_the_window_of_a_resize_is_not_learned_from() -> None:
    model = taught(GUESS, [POOL.window(4)])

    after = model.seen(replace(POOL.window(8), at_s=1e5))

    assert after.knowledge.rows == model.knowledge.rows


# Resizes that are no use


def into_a_wall(pool: Pool, before: int, after: int) -> ThroughputModel:
    model = taught(GUESS, [pool.window(max(1, before // 2)), pool.window(before)], each=20)
    return taught(model, [pool.window(after)], each=12)


def test_a_resize_that_gave_next_to_nothing_is_not_repeated() -> None:
    model = into_a_wall(flat_beyond(8), 8, 12)

    assert model.wall is not None
    assert model.samples_per_s(30) <= 1.01 * 8000.0
    assert model.workers_for(20_000.0, workers_max=64) <= 12


def test_a_stair_is_no_wall_for_who_goes_further() -> None:
    stairs = Pool(lambda n: 1000.0 * (3 * (n // 4) + min(n % 4, 3)))

    model = into_a_wall(stairs, 3, 4)

    assert model.samples_per_s(4) <= 1.01 * 3000.0
    assert model.workers_for(3500.0, workers_max=64) > 4


def test_a_resize_that_did_what_was_expected_is_no_wall() -> None:
    assert into_a_wall(POOL, 8, 12).wall is None


def test_a_wall_that_is_passed_is_forgotten() -> None:
    walled = into_a_wall(flat_beyond(8), 8, 12)
    mended = Pool(contended())

    assert taught(walled, [mended.window(12)], each=12).wall is None


def test_a_wall_may_be_tried_again_after_some_hours() -> None:
    walled = into_a_wall(flat_beyond(8), 8, 12)
    at_s = (walled.knowledge.at_s or 0.0) + WALL_HOLD_S + 1

    assert walled.seen(replace(flat_beyond(8).window(12), at_s=at_s)).wall is None


def test_the_shard_that_binds_is_named() -> None:
    pool = Pool(lambda n: 1000.0 * min(n, 8), demand_s=1 / 8100.0)
    model = taught(GUESS, [pool.window(8)], each=12)

    assert model.bottleneck is Bottleneck.PARAMETER_SERVER
    assert model.binding.resource == "ps-0"


def test_input_that_takes_longer_than_the_gpu_is_named() -> None:
    pool = Pool(contended(contention=0.0), demand_s=1e-6, input_s=1.2e-3)

    model = taught(GUESS, [replace(pool.window(4), samples_per_s=4 / 1.2e-3)])

    assert model.bottleneck is Bottleneck.INPUT_CPU


def test_workers_that_only_compute_are_limited_by_their_gpu() -> None:
    model = taught(GUESS, [Pool(contended(contention=0.0), demand_s=1e-6).window(4)])

    assert model.bottleneck is Bottleneck.GPU


def test_workers_beyond_the_partitions_are_named() -> None:
    pool = replace(flat_beyond(8), partitions=8)
    model = into_a_wall(pool, 8, 12)

    assert model.wall is not None
    assert model.wall.binding.bottleneck is Bottleneck.PARTITIONS


def test_without_telemetry_nobody_knows_what_binds() -> None:
    assert into_a_wall(flat_beyond(8), 8, 12).bottleneck is Bottleneck.UNKNOWN


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_guess_that_is_no_speed_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate_per_worker"):
        ThroughputModel.guessed(rate)
