"""Who is believed: live scores, mixing, hysteresis, calibration."""

from __future__ import annotations

import numpy as np
import pytest

from forecasting.calibration import SCALE_MAX, Calibration
from forecasting.forecast import LEVELS
from forecasting.grid import KINDS
from forecasting.history import Rates
from forecasting.selector import UPPER, Selector
from tests.forecasting.worlds import GRID, history

SPREAD = np.array([-1.3, 0.0, 1.3, 1.65, 2.3])


def says(value: float, *, width: float = 1.0) -> Rates:
    """The same at every lead."""
    return np.broadcast_to(value + width * SPREAD, (KINDS, len(GRID.leads), len(LEVELS))).copy()


def play(
    selector: Selector, said: dict[str, Rates], bins: int, *, seed: int = 0, start: int = 0
) -> tuple[Rates, Rates]:
    """`bins` steps of traffic around 10; what was served last, and the traffic."""
    rates = 10 + np.random.default_rng(seed).normal(size=start + bins)
    served = says(0.0)
    for end in range(start + 1, start + bins + 1):
        past = history(rates[:end])
        selector.settle(past)
        served = selector.mix(past.end_s, said)
    return served, rates


def test_a_model_that_was_right_before_is_believed() -> None:
    selector = Selector(GRID, ["good", "bad"])

    served, _ = play(selector, {"good": says(10.0), "bad": says(14.0)}, 200)

    assert selector.leader == "good"
    assert abs(served[0, 0, 1] - 10.0) < 0.2


def test_a_newcomer_is_held_against_the_others_over_its_own_times() -> None:
    """Calm before it came, loud since: who was there before has the smaller mean, and is no better for it."""
    old = Selector(GRID, ["last-value", "old"])
    said = {"last-value": says(10.0), "old": says(10.0)}
    play(old, said, 200)
    selector = old.renamed(["new", "last-value", "old"])
    calm, loud = 10 + np.random.default_rng(0).normal(size=200), np.full(100, 30.0)
    for end in range(201, 301):
        past = history(np.append(calm, loud)[:end])
        selector.settle(past)
        selector.mix(past.end_s, {**said, "new": says(11.0)})  # a little less far off than the others

    scores = {score.model: score for score in selector.scores()}
    assert scores["new"].loss > scores["old"].loss, "over other times, and so it must not count"
    assert scores["new"].weight > scores["old"].weight


def test_a_forecast_counts_for_as_long_as_it_stood() -> None:
    """Every eighth bin at first, as in a rehearsal, then every one: a bin weighs as much then as now."""
    selector = Selector(GRID, ["first", "later"], half_life_s=1e9)
    rates = np.append(np.full(400, 10.0), np.full(100, 14.0))
    for end in (*range(8, 400, 8), *range(400, 501)):
        past = history(rates[:end])
        selector.settle(past)
        selector.mix(past.end_s, {"first": says(10.0, width=0.0), "later": says(14.0, width=0.0)})

    scores = {score.model: score for score in selector.scores()}
    wrong = 100 * 0.95 * 4.0, 400 * 0.05 * 4.0
    came = 400 * 10.0 + 100 * 14.0
    assert scores["first"].loss == pytest.approx(wrong[0] / came, rel=0.15)
    assert scores["later"].loss == pytest.approx(wrong[1] / came, rel=0.15)


def test_before_any_score_all_models_weigh_the_same() -> None:
    served = Selector(GRID, ["one", "two"]).mix(0.0, {"one": says(8.0), "two": says(12.0)})

    assert served[0, 0, 1] == pytest.approx(10.0)


def test_a_mix_of_two_equal_models_uses_both() -> None:
    selector = Selector(GRID, ["low", "high"])

    served, _ = play(selector, {"low": says(9.7), "high": says(10.3)}, 300)

    assert abs(served[0, 0, 1] - 10.0) < 0.15
    assert all(score.weight > 0.2 for score in selector.scores())


def test_a_model_with_a_bad_median_may_know_the_upper_quantile() -> None:
    biased = says(10.0)
    biased[..., :2] -= 6.0  # its median is far off, its upper quantiles are right
    selector = Selector(GRID, ["plain", "biased"])

    served, _ = play(selector, {"plain": says(10.0, width=3.0), "biased": biased}, 300)

    assert abs(served[0, 0, 1] - 10.0) < 0.3, "the median is the other's"
    shares = {score.model: score.weight for score in selector.scores()}
    assert shares["biased"] > 0.8, "upper quantiles are its own"


def test_a_worse_model_has_less_say_in_the_median_than_in_the_upper_quantiles() -> None:
    selector = Selector(GRID, ["near", "far"])
    near, far = says(11.0, width=0.0), says(11.25, width=0.0)  # of 10: one errs by a quarter more
    served = near
    for end in range(1, 400):
        past = history(np.full(end, 10.0))
        selector.settle(past)
        served = selector.mix(past.end_s, {"near": near, "far": far})

    weight = (served[0, 0] - 11.0) / 0.25

    assert weight[1] == pytest.approx(1 / (1 + 1.25**12), rel=0.15)
    # All came below: calibration has drawn the upper quantile towards the median.
    assert weight[UPPER] == pytest.approx(1 / (1 + 1.25**5), rel=0.15)


def test_a_model_that_is_good_at_every_other_lead_has_more_say_at_this_one() -> None:
    """At the first lead both are as good; elsewhere one is far off."""
    steady, wild = says(9.5), says(10.5)
    wild[:, 1:] = says(13.0)[:, 1:]
    selector = Selector(GRID, ["steady", "wild"])

    served, _ = play(selector, {"steady": steady, "wild": wild}, 400)

    assert served[0, 0, 1] < 9.8


def test_a_silent_model_is_left_out_and_another_speaks() -> None:
    selector = Selector(GRID, ["good", "fair"])
    play(selector, {"good": says(10.0), "fair": says(10.4)}, 100)

    served = selector.mix(101 * GRID.step_s, {"fair": says(10.4)})

    assert served[0, 0, 1] == pytest.approx(10.4)


def test_the_leader_changes_only_for_one_that_is_clearly_better() -> None:
    selector = Selector(GRID, ["first", "twin"])

    changes = 0
    rates = 10 + np.random.default_rng(2).normal(size=400)
    before = selector.leader
    for end in range(1, 401):
        past = history(rates[:end])
        selector.settle(past)
        selector.mix(past.end_s, {"first": says(10.0), "twin": says(10.01)})
        changes += selector.leader != before
        before = selector.leader

    assert changes == 0


def test_among_many_models_the_best_one_leads_though_none_has_much_weight() -> None:
    names = [f"fair {number}" for number in range(8)]
    selector = Selector(GRID, [*names, "best"])

    said = {**dict.fromkeys(names, says(10.0, width=1.2)), "best": says(10.0)}
    play(selector, said, 200)
    selector.leader = names[0]
    play(selector, said, 5, start=200)

    weights = {score.model: score.weight for score in selector.scores()}
    assert weights["best"] < weights[names[0]] + 0.1
    assert selector.leader == "best"


def test_scores_tell_coverage_and_bias_at_peaks() -> None:
    selector = Selector(GRID, ["low", "wide"])

    play(selector, {"low": says(7.0), "wide": says(10.0, width=3.0)}, 300)
    low, wide = selector.scores()

    assert low.coverage < 0.4
    assert low.peak_bias < -0.2
    assert wide.coverage > 0.95
    assert low.loss > wide.loss


def test_a_gap_scores_nothing() -> None:
    selector = Selector(GRID, ["one"])
    rates = np.full(50, np.nan)
    rates[0] = 10.0
    for end in range(1, 51):
        past = history(rates[:end])
        selector.settle(past)
        selector.mix(past.end_s, {"one": says(10.0)})

    assert selector.scores()[0].scored == 0


def test_a_history_that_began_anew_scores_nothing_of_the_time_before_it() -> None:
    selector = Selector(GRID, ["one"])
    before, after = np.full(60, 10.0), np.full(20, 1000.0)
    selector.settle(history(before))
    selector.mix(60 * GRID.step_s, {"one": says(10.0)})

    selector.settle(history(after, start_s=(60 + GRID.reach) * GRID.step_s))

    assert selector.scores()[0].scored == 0


def test_where_nobody_speaks_nothing_is_said_nor_scored() -> None:
    selector = Selector(GRID, ["one"])
    rates = np.full(60, 10.0)

    assert np.isnan(selector.mix(30 * GRID.step_s, {})).all()

    for end in range(31, 61):
        selector.settle(history(rates[:end]))
    assert selector.served_loss is None


def test_steps_that_were_missed_are_scored_when_they_are_seen() -> None:
    rates = 10 + np.random.default_rng(0).normal(size=60)
    each, late = Selector(GRID, ["one"]), Selector(GRID, ["one"])
    for selector in (each, late):
        selector.settle(history(rates[:1]))
        selector.mix(GRID.step_s, {"one": says(10.0)})
    for end in range(2, 41):
        each.settle(history(rates[:end]))
    late.settle(history(rates[:15]))
    late.settle(history(rates[:40]))

    assert late.scores() == each.scores()
    assert each.scores()[0].scored == KINDS * len(GRID.leads)


def test_new_weights_inherit_the_scores_of_their_name() -> None:
    selector = Selector(GRID, ["net", "light"])
    play(selector, {"net": says(10.0), "light": says(12.0)}, 100)

    after = selector.renamed(["net", "new", "light"])

    assert {s.model: s.loss for s in after.scores()}["light"] == selector.scores()[1].loss
    assert {s.model: s.scored for s in after.scores()}["new"] == 0


def learned(calibration: Calibration, width: float, count: int, seed: int = 0) -> Calibration:
    served = 10.0 + width * SPREAD
    for came in 10 + np.random.default_rng(seed).normal(size=count):
        calibration.learn(0, 0, float(came), served)
    return calibration


def test_quantiles_that_cover_are_left_alone() -> None:
    assert learned(Calibration(GRID), 1.0, 500).scale[0, 0] == 1.0


def test_coverage_that_is_off_by_no_more_than_chance_is_left_alone() -> None:
    assert learned(Calibration(GRID), 0.85, 500).scale[0, 0] == 1.0  # covers 0.92 of a normal error


def test_quantiles_that_do_not_cover_are_widened_up_to_the_bound() -> None:
    narrow = learned(Calibration(GRID), 0.5, 500)
    hopeless = learned(Calibration(GRID), 0.05, 500)

    assert 1.2 < narrow.scale[0, 0] <= SCALE_MAX
    assert hopeless.scale[0, 0] == SCALE_MAX


def test_quantiles_that_cover_far_too_much_are_narrowed() -> None:
    wide = learned(Calibration(GRID), 2.0, 500)

    assert wide.scale[0, 0] < 1.0


def test_calibration_moves_the_upper_levels_only() -> None:
    calibration = learned(Calibration(GRID), 0.5, 500)
    before = says(10.0, width=0.5)

    after = calibration.applied(before)

    np.testing.assert_array_equal(after[..., :2], before[..., :2])
    assert after[0, 0, UPPER] > before[0, 0, UPPER]
    assert after[1, 1, UPPER] == before[1, 1, UPPER]
