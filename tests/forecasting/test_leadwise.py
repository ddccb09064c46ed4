"""One set of weights for all leads: gradients that are right, answers that are each lead's own."""

from __future__ import annotations

import numpy as np
import pytest

from forecasting import leadwise
from forecasting.batch import batch_at
from forecasting.calendar import Calendar
from forecasting.ensemble import Single
from forecasting.features import describe, targets_of
from forecasting.forecast import LEVELS
from forecasting.grid import KINDS
from forecasting.history import Rates
from forecasting.leadwise import Leadwise, train_leadwise
from forecasting.window import SHARED, Window, train_window
from tests.forecasting.worlds import DAY, GRID, history, lessons, rhythm

LEADS = 3


def made_up(rows: int = 600) -> tuple[Rates, Rates, Rates]:
    """What comes is the row's number times the lead's, and noise."""
    draw = np.random.default_rng(5)
    raw, by_lead = draw.normal(size=(rows, 4)), draw.normal(size=(rows, LEADS, 2))
    mean = raw[:, :1] + 0.5 * by_lead[:, :, 0] + np.arange(LEADS)
    came = np.stack([mean, mean + 1.0], axis=1) + 0.1 * draw.normal(size=(rows, KINDS, LEADS))
    return raw, by_lead, came


def test_it_learns_what_differs_by_row_by_lead_and_by_kind() -> None:
    raw, by_lead, came = made_up()
    model = train_leadwise(raw[:500], by_lead[:500], came[:500], np.ones(500), noise=0.05)

    median = model.logs(raw[500:], by_lead[500:])[..., LEVELS.index(0.5)]

    assert np.abs(median - came[500:]).mean() < 0.3 * np.abs(came[500:] - came.mean(axis=0)).mean()


def test_the_gradient_is_that_of_the_pinball_loss() -> None:
    raw, by_lead, came = made_up(20)
    rows, leads = raw.astype(np.float32), by_lead.astype(np.float32)
    wanted = came.transpose(0, 2, 1).copy()
    wanted[2, 1, 0] = np.nan
    weights = np.linspace(0.5, 2.0, 20)
    draw = np.random.default_rng(0)
    layers = [np.asarray(layer, dtype=np.float64) for layer in leadwise._start(4, wanted, 2, draw)]
    layers[5] = draw.normal(size=layers[5].shape) * 0.3

    slopes = leadwise._gradients(layers, rows, leads, wanted, weights)

    for which, slope in enumerate(slopes):
        at = tuple(size // 2 for size in slope.shape)
        moved = []
        for by in (1e-4, -1e-4):
            other = [layer.copy() for layer in layers]
            other[which][at] += by
            moved.append(_loss(other, rows, leads, wanted, weights))
        assert slope[at] == pytest.approx((moved[0] - moved[1]) / 2e-4, rel=0.05, abs=2e-3)


def _loss(layers: list[Rates], rows: Single, leads: Single, wanted: Rates, weights: Rates) -> float:
    guess = leadwise._forward(layers, rows, leads)[-1].reshape(*wanted.shape, len(LEVELS))
    error = wanted[..., None] - guess
    taus = np.array(LEVELS)
    loss = np.nan_to_num(np.maximum(taus * error, (taus - 1) * error)) * weights[:, None, None, None]
    return float(loss.sum() / (len(rows) * wanted.shape[1]))


def test_a_target_that_is_not_known_at_any_row_leaves_the_others_alone() -> None:
    raw, by_lead, came = made_up(100)
    came[:, 1, 2] = np.nan

    assert np.isfinite(train_leadwise(raw, by_lead, came, np.ones(100), noise=0.2).logs(raw, by_lead)).all()


def test_the_same_seed_gives_the_same_networks_and_each_is_another() -> None:
    raw, by_lead, came = made_up(100)
    one, two, other = (
        train_leadwise(raw, by_lead, came, np.ones(100), noise=0.2, seed=seed) for seed in (1, 1, 2)
    )

    np.testing.assert_array_equal(one.logs(raw, by_lead), two.logs(raw, by_lead))
    assert not np.array_equal(one.logs(raw, by_lead), other.logs(raw, by_lead))
    assert not np.array_equal(one.members[0][0], one.members[1][0])


def test_the_shared_window_survives_being_written_down() -> None:
    rates = rhythm(10, seed=7)
    batch = batch_at(GRID, history(rates), np.arange(8 * DAY, 9 * DAY, 5))
    features, came = describe(batch, Calendar()), targets_of(batch, rates)
    window = train_window(lessons(), name=SHARED)

    said = window.quantiles(batch, features)

    again = Window.from_arrays(SHARED, window.arrays(), GRID)
    assert isinstance(again.networks, Leadwise)
    np.testing.assert_array_equal(again.quantiles(batch, features), said)
    assert 0.85 < np.nanmean(came <= said[..., LEVELS.index(0.95)]) < 1.0
