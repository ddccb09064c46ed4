"""Few rows train several PatchTST, and their mean answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forecasting import patchtst_training
from forecasting.analogs import path_of
from forecasting.batch import batch_at
from forecasting.calendar import Calendar
from forecasting.features import describe
from forecasting.learned import Lessons
from forecasting.network import PATCH, NetworkSpec, inputs_of, spec_named
from forecasting.network_lessons import MEMBERS_MAX, Effort, network_lessons
from forecasting.network_training import train_network
from forecasting.patchtst import PatchTst, joined, members_of
from tests.forecasting.worlds import DAY, GRID, history, lessons, rhythm, untrained_patchtst

QUICK = replace(spec_named("patchtst"), steps=200)
"""A hundred steps are the fewest, so these are two networks."""


def test_the_mean_of_networks_is_answered() -> None:
    one, two = untrained_patchtst(1), untrained_patchtst(2)
    both = replace(one, weights=joined([one.weights, two.weights]))
    inputs = np.random.default_rng(0).normal(size=(300, one.spec.inputs)).astype(np.float32)

    mean = (one.answers(inputs) + two.answers(inputs)) / 2

    np.testing.assert_allclose(both.answers(inputs), mean, atol=1e-5)


def test_weights_of_several_networks_are_told_apart() -> None:
    parts = [{"a.b": np.full(1, n, dtype=np.float32)} for n in range(3)]

    assert [part["a.b"][0] for part in members_of(joined(parts))] == [0.0, 1.0, 2.0]
    assert members_of({}) == [{}]


def test_steps_that_few_rows_leave_over_train_more_networks() -> None:
    few = lessons_of(100)

    trained = train_network(few, QUICK, Calendar(), Effort())

    assert len(members_of(trained.weights)) == 2
    assert trained.steps == 200
    assert Effort().members_for(10, spec_named("patchtst")) == MEMBERS_MAX
    assert Effort().members_for(1_000_000, spec_named("patchtst")) == 1
    assert Effort(steps=100).members_for(10, spec_named("patchtst")) == 1


def lessons_of(rows: int) -> Lessons:
    """The last ones of a few days."""
    taught = lessons(5)
    start = len(taught) - rows
    batch = taught.batches[0].select(slice(start, None))
    return replace(
        taught,
        features=taught.features.select(slice(start, None)),
        batches=(batch,),
        came=taught.came[start:],
    )


def test_a_network_that_the_budget_has_no_room_for_is_left_out() -> None:
    spent = train_network(lessons_of(100), QUICK, Calendar(), Effort(used=lambda: 0.3))

    assert len(members_of(spent.weights)) == 1


def test_each_network_starts_where_it_ended() -> None:
    few = lessons_of(100)
    first = train_network(few, QUICK, Calendar(), Effort())
    still = Effort(learning_rate=0.0)

    warm = train_network(few, QUICK, Calendar(), still, start=first.weights)

    for name, value in first.weights.items():
        if "running" not in name:
            np.testing.assert_array_equal(warm.weights[name], value)


@pytest.mark.parametrize(("rows", "share"), [(100, 0.3), (100_000, 0.2)])
def test_few_rows_are_trained_with_more_left_out(
    monkeypatch: pytest.MonkeyPatch, rows: int, share: float
) -> None:
    used: list[float] = []

    def descend(_weights: object, spec: NetworkSpec, *_: object) -> tuple[float, int]:
        used.append(spec.dropout)
        return 0.0, 1

    monkeypatch.setattr(patchtst_training, "_descend", descend)
    monkeypatch.setattr(patchtst_training, "MANY_ROWS", patchtst_training.MANY_ROWS * 100 / rows)

    train_network(lessons_of(100), QUICK, Calendar(), Effort())

    assert used[0] == pytest.approx(share)


def test_the_first_patch_is_the_mean_of_the_seasons_like_today() -> None:
    rates = rhythm(6)
    batch = batch_at(GRID, history(rates), np.array([5 * DAY + 100, DAY // 2]))
    features = describe(batch, Calendar())
    spec = spec_named("patchtst")

    inputs = inputs_of(batch, features, spec)

    differed, ahead = path_of(features.analogs)
    np.testing.assert_allclose(inputs[0, PATCH - ahead.shape[1] : PATCH], ahead[0], rtol=1e-5)
    before = PATCH - ahead.shape[1]
    today = inputs[0, -before:]
    np.testing.assert_allclose(inputs[0, :before], today - differed[0, -before:], atol=1e-5)
    assert not inputs[1, :PATCH].any()  # half a day: no season is known yet


def test_a_mean_is_served_like_one() -> None:
    trained = train_network(lessons_of(100), QUICK, Calendar(), Effort())
    model = PatchTst(trained.spec, trained.weights, trained.offsets, trained.spec.needs(GRID))
    batch = batch_at(GRID, history(rhythm(6)), np.array([5 * DAY]))

    said = model.quantiles(batch, describe(batch, Calendar()))

    assert np.isfinite(said).all()
    assert (np.diff(said, axis=-1) >= 0).all()
    assert network_lessons(lessons_of(100), QUICK, Calendar()).inputs.shape[1] == trained.spec.inputs
