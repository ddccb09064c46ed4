"""Features and trained models: what they may see, and what they learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecasting.batch import batch_at, batch_of
from forecasting.boosting import Boosting, train_boosting
from forecasting.calendar import Calendar
from forecasting.descent import Descent
from forecasting.ensemble import MEMBERS, STEPS_MAX
from forecasting.errors import NotEnoughHistory
from forecasting.evaluation import pinball
from forecasting.exported import ExportedNetwork
from forecasting.features import describe, targets_of
from forecasting.fleet import Trained
from forecasting.heavy import MissingPackage, heavy
from forecasting.history import Rates
from forecasting.last_value import LastValue
from forecasting.learned import ROWS_MIN, lessons_from
from forecasting.network import NetworkSpec, inputs_of, spec_named
from forecasting.network_descent import answer
from forecasting.network_lessons import EPOCHS_MAX, Effort, network_lessons
from forecasting.network_training import answers_of, build_module, exported, train_network
from forecasting.patchtst import PatchTst
from forecasting.patchtst_training import Pass, initial_weights, weighted_pinball
from forecasting.perceptron import Perceptron, train_perceptron
from forecasting.regression import Regression, train_regression
from forecasting.selector import UPPER
from forecasting.torch_network import runnable
from forecasting.voices import said_by_learned, said_by_light
from forecasting.window import Window, train_window
from tests.forecasting.extras import TORCH, needs_torch
from tests.forecasting.worlds import DAY, GRID, history, lessons, regression, rhythm, untrained_patchtst


@settings(max_examples=25, deadline=None)
@given(origin=st.integers(2 * DAY, 8 * DAY), seed=st.integers(0, 100))
def test_features_and_inputs_do_not_see_past_their_origin(origin: int, seed: int) -> None:
    rates = rhythm(9, seed=seed)
    other = rates.copy()
    other[origin:] = np.random.default_rng(seed).uniform(0, 1000, size=len(rates) - origin)
    spec = spec_named("patchtst")

    seen = []
    for series in (rates, other):
        batch = batch_at(GRID, history(series), np.array([origin]))
        features = describe(batch, Calendar())
        seen.append((features.common, features.by_lead, inputs_of(batch, features, spec)))

    for one, two in zip(*seen, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_season_shorter_than_the_horizon_is_not_read_from_the_future() -> None:
    grid = replace(GRID, season_s=4 * 300.0)
    rates = rhythm(3)
    other = rates.copy()
    other[500:] = 777.0
    spec = spec_named("patchtst")

    seen = []
    for series in (rates, other):
        batch = batch_at(grid, history(series), np.array([500]))
        features = describe(batch, Calendar())
        seen.append((features.common, features.by_lead, inputs_of(batch, features, spec)))

    for one, two in zip(*seen, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_fleet_and_one_history_at_its_end_are_described_alike() -> None:
    rates = rhythm(9)
    at_end = describe(batch_at(GRID, history(rates), np.array([len(rates)])), Calendar())
    fleet = describe(batch_of(GRID, [history(rates), history(rhythm(2, seed=3))]), Calendar())

    np.testing.assert_allclose(fleet.common[0], at_end.common[0], atol=1e-9)
    np.testing.assert_allclose(fleet.by_lead[0], at_end.by_lead[0], atol=1e-9)


def _seasons_seen(rates: Rates) -> Rates:
    """What is seen of the seasons before: (leads, features)."""
    return np.asarray(describe(batch_of(GRID, [history(rates)]), Calendar()).by_lead[0])


def test_a_season_not_known_looks_like_those_that_are() -> None:
    young = _seasons_seen(rhythm(2.5))

    np.testing.assert_allclose(young[:, 2], (young[:, 0] + young[:, 1]) / 2)
    np.testing.assert_allclose(young[:, 3], young[:, 2])
    assert np.abs(young[:, 3]).max() > 0.1


def test_how_long_traffic_is_known_is_no_trend_to_follow() -> None:
    """A straight line through "days known" runs on after training: no feature may tell the day."""
    day = rhythm(1)
    ten, twenty = (describe(batch_of(GRID, [history(np.tile(day, days))]), Calendar()) for days in (10, 20))

    np.testing.assert_allclose(ten.common, twenty.common, atol=1e-9)


def test_a_peak_that_comes_every_day_is_seen_coming() -> None:
    plain = np.tile(np.full(DAY, 20.0), 9)
    spiky = plain.copy()
    spiky[7 * DAY // 8 :: DAY] = 60.0
    ahead = 7 * DAY // 8 - 4  # four bins before the spike of the tenth day
    flat, seen = (_seasons_seen(np.concatenate([rates, rates[:ahead]])) for rates in (plain, spiky))

    highest = 8
    assert np.exp(seen[:, highest] - flat[:, highest]).max() > 2.5


def test_the_mean_of_perceptrons_is_steadier_than_each_and_survives_being_written_down() -> None:
    rates, origins = _test_rows()
    batch = batch_at(GRID, history(rates), np.array(origins))
    features, came = describe(batch, Calendar()), targets_of(batch, rates)
    whole = train_perceptron(lessons())
    each = [Perceptron(replace(whole.networks, members=(member,))) for member in whole.networks.members]

    said = whole.quantiles(batch, features)

    single = [_loss(model.quantiles(batch, features), came) for model in each]
    assert len(single) == MEMBERS
    assert _loss(said, came) < np.mean(single)
    again = Perceptron.from_arrays(whole.arrays())
    np.testing.assert_array_equal(again.quantiles(batch, features), said)


def test_the_window_knows_what_no_feature_tells_and_survives_being_written_down() -> None:
    """A knock some four hours before each spike: no mean, no maximum and no season shows it well."""
    rates = _knocks(16, seed=1)
    taught = lessons_from(GRID, {"a": history(_knocks(16, seed=2))}, Calendar())
    batch = batch_at(GRID, history(rates), np.arange(8 * DAY, 15 * DAY, 3))
    features, came = describe(batch, Calendar()), targets_of(batch, rates)
    window = train_window(taught, steps=200)

    said = window.quantiles(batch, features)

    assert _loss(said, came) < 0.9 * _loss(
        train_perceptron(taught, steps=200).quantiles(batch, features), came
    )
    again = Window.from_arrays("window", window.arrays(), GRID)
    np.testing.assert_array_equal(again.quantiles(batch, features), said)


def test_many_rows_do_not_use_up_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[float] = []
    monkeypatch.setattr(Descent, "step", lambda _self, _gradients, *, share: taken.append(share))

    train_perceptron(lessons(), batch=4)

    assert len(taken) == MEMBERS * STEPS_MAX
    assert max(taken) == pytest.approx(1 - 1 / STEPS_MAX), "the rate falls to nothing within them"


def test_a_past_that_is_too_short_for_a_window_is_told() -> None:
    short = lessons_from(GRID, {"a": history(rhythm(0.8))}, Calendar())
    assert len(short) > ROWS_MIN

    with pytest.raises(NotEnoughHistory) as window:
        train_window(short)
    with pytest.raises(NotEnoughHistory) as network:
        train_network(short, spec_named("patchtst"), Calendar(), Effort())

    assert window.value.have_s == network.value.have_s == pytest.approx(0.8 * 86_400, rel=0.1)


def _knocks(days: int, *, seed: int) -> Rates:
    """Even traffic with a small bump now and then, and a spike exactly fifty bins after it."""
    draw = np.random.default_rng(seed)
    rates = 20.0 + draw.normal(scale=0.2, size=days * DAY)
    for at in np.cumsum(draw.integers(90, 180, size=days * 3)):
        rates[at : at + 2] += 8.0
        rates[at + 50 : at + 53] += 30.0
    return np.asarray(rates[: days * DAY])


def test_what_was_a_gap_is_nothing_to_learn_from() -> None:
    rates = rhythm(3)
    rates[600:620] = np.nan
    batch = batch_at(GRID, history(rates), np.array([600]))

    assert np.isnan(targets_of(batch, rates)[0, 0, 0])


def _loss(said: Rates, came: Rates) -> float:
    return float(np.nanmean(pinball(came, said[..., UPPER], 0.95)))


def _test_rows() -> tuple[Rates, list[int]]:
    return rhythm(16, seed=5), list(range(10 * DAY, 15 * DAY, 12))


def _last_value_loss() -> float:
    rates, origins = _test_rows()
    came = targets_of(batch_at(GRID, history(rates), np.array(origins)), rates)
    light = [said_by_light([LastValue()], history(rates[:o]), GRID)["last-value"] for o in origins]
    return _loss(np.stack(light), came)


def test_regression_beats_last_value_on_a_rhythm() -> None:
    rates, origins = _test_rows()
    batch = batch_at(GRID, history(rates), np.array(origins))
    said = said_by_learned([regression()], batch, Calendar())["regression"]

    assert _loss(said, targets_of(batch, rates)) < 0.7 * _last_value_loss()


def test_boosting_beats_last_value_on_a_rhythm_and_survives_being_written_down() -> None:
    rates, origins = _test_rows()
    batch = batch_at(GRID, history(rates), np.array(origins))
    model = train_boosting(lessons(), trees=60)
    said = said_by_learned([model], batch, Calendar())["boosting"]

    again = said_by_learned([Boosting.from_texts(model.texts())], batch, Calendar())["boosting"]

    assert _loss(said, targets_of(batch, rates)) < 0.8 * _last_value_loss()
    np.testing.assert_allclose(said, again, rtol=1e-6)


def test_a_topic_with_too_little_history_is_answered_by_silence() -> None:
    batch = batch_of(GRID, [history(rhythm(9)), history(rhythm(0.3))])

    said = said_by_learned([untrained_patchtst()], batch, Calendar())["patchtst"]

    assert np.isfinite(said[0]).all()
    assert np.isnan(said[1]).all()


def test_training_is_deterministic_by_seed() -> None:
    few = lessons_from(GRID, {"a": history(rhythm(5))}, Calendar(), rows_max=300)
    one, two = train_regression(few, seed=3), train_regression(few, seed=3)

    np.testing.assert_array_equal(one.weights, two.weights)


def test_regression_survives_being_written_down() -> None:
    again = Regression.from_arrays(regression().arrays())
    past = history(rhythm(9))

    np.testing.assert_array_equal(
        Trained(again, GRID).forecast(past, horizon_s=3600.0).paths,
        Trained(regression(), GRID).forecast(past, horizon_s=3600.0).paths,
    )


@needs_torch
def test_patchtst_by_numpy_answers_as_the_torch_module() -> None:
    torch = heavy("torch")
    mine = untrained_patchtst(seed=4)
    module = build_module(mine.spec, GRID)
    kept = {name: torch.from_numpy(np.array(value)) for name, value in mine.weights.items()}
    module.load_state_dict({**module.state_dict(), **kept})
    module.eval()
    inputs = np.random.default_rng(0).normal(size=(7, mine.spec.inputs)).astype(np.float32)

    theirs = answers_of(module, inputs, None)

    np.testing.assert_allclose(mine.answers(inputs), theirs, atol=2e-4)


@needs_torch
def test_patchtst_by_numpy_learns_as_the_torch_module() -> None:
    torch = heavy("torch")
    spec = _without_dropout()
    data = network_lessons(lessons(), spec, Calendar())
    inputs, wanted, weights = data.inputs[:48], data.wanted[:48].copy(), data.weights[:48]
    wanted[3, 4] = np.nan
    mine = initial_weights(spec, wanted.shape[1], np.random.default_rng(1))
    module = build_module(spec, GRID)
    module.load_state_dict(
        {**module.state_dict(), **{name: torch.from_numpy(value.copy()) for name, value in mine.items()}}
    )

    passed = Pass(spec, mine)
    loss, slope = weighted_pinball(passed.forward(inputs), wanted, weights)
    gradients = passed.backward(slope)
    guess = answer(module.train(), torch.from_numpy(inputs), None)
    guess.backward(torch.from_numpy(slope))

    assert loss > 0
    theirs = dict(module.named_parameters())
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, theirs[name].grad.numpy(), rtol=2e-3, atol=1e-6, err_msg=name)
    running = module.state_dict()
    for name in (name for name in mine if "running" in name):
        np.testing.assert_allclose(mine[name], running[name].numpy(), rtol=1e-4, atol=1e-6)


def _without_dropout() -> NetworkSpec:
    spec = spec_named("patchtst")
    options = {**dict(spec.options), "dropout": 0.0, "fc_dropout": 0.0}
    return replace(spec, options=tuple(options.items()))


@pytest.mark.parametrize(
    "name",
    ["patchtst", *(pytest.param(name, marks=TORCH) for name in ("nhits", "fedformer", "seq2seq", "NLinear"))],
)
def test_any_network_trains_within_its_budget_and_answers(name: str) -> None:
    spent = iter(np.linspace(0, 1.2, 12))
    effort = Effort(steps=500, batch=32, used=lambda: float(next(spent)))

    trained = train_network(lessons(), spec_named(name), Calendar(), effort)
    model = runnable(trained, GRID, Calendar())
    said = said_by_learned([model], batch_of(GRID, [history(rhythm(9))]), Calendar())

    assert trained.steps < 12
    assert np.isfinite(said[model.name]).all()


@needs_torch
@pytest.mark.parametrize("name", ["nhits", "fedformer"])
def test_an_exported_network_answers_as_its_module(name: str) -> None:
    spec = spec_named(name)
    trained = train_network(lessons(), spec, Calendar(), Effort(steps=3, batch=32))
    batch = batch_at(GRID, history(rhythm(9)), np.arange(3 * DAY, 3 * DAY + 70))
    features = describe(batch, Calendar())

    program = ExportedNetwork.from_bytes(
        spec, exported(trained, GRID), trained.offsets, needs=spec.needs(GRID), calendar=Calendar()
    )

    np.testing.assert_allclose(
        program.quantiles(batch, features),
        runnable(trained, GRID, Calendar()).quantiles(batch, features),
        rtol=1e-4,
    )


def test_a_warm_start_begins_where_the_last_training_ended() -> None:
    first = train_network(lessons(), spec_named("patchtst"), Calendar(), Effort(steps=60))

    warm = train_network(
        lessons(), spec_named("patchtst"), Calendar(), Effort(steps=1, learning_rate=0.0), start=first.weights
    )
    cold = train_network(lessons(), spec_named("patchtst"), Calendar(), Effort(steps=1, learning_rate=0.0))

    assert warm.loss < cold.loss


@needs_torch
def test_a_budget_that_lasts_leaves_no_trace_in_the_weights() -> None:
    busy = np.random.default_rng(0)
    spent: tuple[Callable[[], float], ...] = (lambda: 0.0, lambda: float(busy.uniform(0.0, 0.5)))

    one, two = (
        train_network(lessons(), spec_named("patchtst"), Calendar(), Effort(steps=20, used=used))
        for used in spent
    )

    for name, weights in one.weights.items():
        np.testing.assert_array_equal(weights, two.weights[name])


def test_a_network_takes_its_own_number_of_steps_and_fewer_where_rows_are_few() -> None:
    spec = spec_named("patchtst")

    assert Effort().steps_for(1_000_000, spec) == spec.steps > spec_named("nhits").steps
    assert Effort(steps=7).steps_for(1_000_000, spec) == 7
    assert Effort().steps_for(640, spec) == EPOCHS_MAX * 640 // spec.batch


@needs_torch
def test_an_unknown_architecture_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"has no architecture 'Nonsense'.*patchtst"):
        build_module(spec_named("Nonsense"), GRID)


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forecasting.heavy.find_spec", lambda _name: None)

    with pytest.raises(MissingPackage, match=r"pip install 'penstock\[forecast\]'"):
        heavy("torch.nn")


def test_patchtst_needs_no_torch_to_be_served() -> None:
    model = untrained_patchtst()

    ahead = Trained(model, GRID).forecast(history(rhythm(9)), horizon_s=3600.0)

    assert isinstance(model, PatchTst)
    assert ahead.model == "patchtst"
