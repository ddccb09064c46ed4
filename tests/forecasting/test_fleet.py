"""Many topics, many models: newcomers are rehearsed, one that fails is left out, the rest go on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from forecasting import fleet as fleet_module
from forecasting.batch import Batch
from forecasting.features import Features
from forecasting.fleet import Fleet
from forecasting.forecast import LEVELS
from forecasting.grid import KINDS
from forecasting.history import TrafficHistory
from forecasting.learned import FleetModel, Quantiles
from forecasting.selector import Selector
from tests.forecasting.worlds import DAY, GRID, history, regression, rhythm


@dataclass(frozen=True)
class Constant:
    """Says the same of everything, or fails."""

    name: str = "constant"
    value: float = 1000.0
    error: Exception | None = None
    needs: int = 1

    def quantiles(self, batch: Batch, features: Features) -> Quantiles:
        if self.error is not None:
            raise self.error
        return np.full((len(batch), KINDS, len(GRID.leads), len(LEVELS)), self.value)


def served(*models: FleetModel, days: float = 4, rehearses: bool = True) -> Fleet:
    fleet = Fleet(GRID, learned=models, rehearses=rehearses)
    fleet.forecast({"a": history(rhythm(days))})
    return fleet


def test_a_bad_newcomer_has_no_say_from_its_first_step_on() -> None:
    fleet = served(Constant(), regression())

    said = fleet.forecast({"a": history(rhythm(4 + 1 / DAY))})["a"]

    assert said.shares["constant"] < 0.001
    assert said.path(0.95).max() < 100
    assert said.score is not None


def test_without_a_rehearsal_nobody_knows_better() -> None:
    fleet = Fleet(GRID, learned=(Constant(), regression()))

    assert fleet.forecast({"a": history(rhythm(4))})["a"].shares["constant"] > 0.1


def test_new_weights_are_rehearsed_again() -> None:
    fleet = served(regression()).with_learned((regression(), Constant()))

    said = fleet.forecast({"a": history(rhythm(4 + 1 / DAY))})["a"]

    assert said.shares["constant"] < 0.001


def test_what_the_weights_before_were_worth_counts_beside_a_rehearsal() -> None:
    fleet = served(regression())
    once = {score.model: score.scored for score in fleet.scores("a")}

    again = fleet.with_learned((regression(), Constant()))
    again.forecast({"a": history(rhythm(4 + 1 / DAY))})

    scored = {score.model: score.scored for score in again.scores("a")}
    assert scored["regression"] == pytest.approx(1.5 * once["regression"], rel=0.05), (
        "one season, half of another"
    )
    assert scored["constant"] == pytest.approx(once["regression"], rel=0.05), "it was never heard before"


def test_a_topic_too_young_to_judge_by_is_served_unrehearsed() -> None:
    said = Fleet(GRID, learned=(regression(),), rehearses=True).forecast({"a": history(rhythm(0.2))})

    assert np.isfinite(said["a"].paths).all()


def test_a_rehearsal_does_not_see_what_comes() -> None:
    past = rhythm(4)
    loud = np.concatenate([past, np.full(DAY, 1e6)])[: len(past)]

    one, two = (Fleet(GRID, learned=(regression(),), rehearses=True) for _ in range(2))

    np.testing.assert_array_equal(
        one.forecast({"a": history(past)})["a"].paths, two.forecast({"a": history(loud)})["a"].paths
    )


def test_a_gap_of_days_is_not_forecast_as_no_traffic() -> None:
    rates = np.concatenate([rhythm(2), np.full(2 * DAY, np.nan)])

    ahead = Fleet(GRID).forecast({"a": history(rates)})["a"]

    assert ahead.path(0.5).min() > 0.5 * rates[2 * DAY - 1]


def test_a_model_that_raises_is_named_and_the_other_trained_ones_speak() -> None:
    fleet = served(Constant(error=MemoryError("no more")), regression())

    said = fleet.forecast({"a": history(rhythm(4 + 1 / DAY))})["a"]

    assert said.shares["regression"] > 0.1
    assert said.shares["constant"] == 0
    assert said.trouble == "constant failed (MemoryError: no more)"
    assert fleet.faults == {"constant": "MemoryError: no more"}


def test_a_model_that_recovers_is_heard_again_and_the_trouble_is_over() -> None:
    broken = served(Constant("net", error=ValueError("bad")), regression())
    mended = broken.with_learned((Constant("net"), regression()))

    said = mended.forecast({"a": history(rhythm(4 + 1 / DAY))})["a"]

    assert said.trouble == ""
    assert mended.faults == {}


def test_a_large_fleet_is_described_in_pieces_and_answered_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = {str(seed): history(rhythm(4, seed=seed)) for seed in range(3)}
    whole = Fleet(GRID, learned=(regression(),)).forecast(topics)
    monkeypatch.setattr(fleet_module, "BINS_AT_ONCE", 1)

    pieces = Fleet(GRID, learned=(regression(),)).forecast(topics)

    for topic, said in whole.items():
        np.testing.assert_allclose(pieces[topic].paths, said.paths)


def test_what_calibration_learned_outlives_a_rehearsal() -> None:
    before, fresh = Selector(GRID, ["one"]), Selector(GRID, ["one", "two"])
    before.calibration.scale[0, 0] = 1.3

    assert fresh.succeeding(before).calibration.scale[0, 0] == 1.3


def after_an_outage() -> TrafficHistory:
    """Traffic of about 20 that was held up for twenty minutes, came at five times its rate, and goes on."""
    rates = np.random.default_rng(0).normal(20.0, 0.5, 4 * DAY)
    rates[-6:-2], rates[-2:] = 0.0, 100.0
    return history(rates)


def test_the_burst_after_an_outage_is_not_forecast_by_any_model() -> None:
    ahead = Fleet(GRID).forecast({"a": after_an_outage()})["a"]

    assert ahead.path(0.5).max() < 22.0
    assert ahead.path(0.95).max() < 30.0
    assert ahead.data_age_s == 0.0, "the outage was measured"


def test_an_outage_and_its_burst_do_not_spoil_the_live_score() -> None:
    whole = after_an_outage()
    fleet = Fleet(GRID)

    served = [
        fleet.forecast({"a": replace(whole, rates=whole.rates[: len(whole.rates) - unseen])})["a"]
        for unseen in range(12, -1, -1)
    ]

    assert served[-1].score is not None
    assert served[-1].score < 0.05
