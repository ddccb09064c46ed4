"""When a network has learned what it can."""

from __future__ import annotations

import numpy as np

from forecasting.calendar import Calendar
from forecasting.network import spec_named
from forecasting.network_descent import CHECK_STEPS, GAIN_MIN, LOWERED, PATIENCE, Plateau
from forecasting.network_lessons import Effort
from forecasting.network_training import train_network
from tests.forecasting.extras import needs_torch
from tests.forecasting.worlds import lessons


def test_while_the_loss_falls_nothing_changes() -> None:
    plateau = Plateau()

    better = [plateau.look(1.0 / look) for look in range(1, 200)]

    assert all(better)
    assert plateau.rate == LOWERED[0]
    assert not plateau.over


def test_the_rate_is_lowered_when_the_loss_has_stopped_and_training_ends_at_the_lowest() -> None:
    plateau = Plateau()
    plateau.look(1.0)
    rates = []
    while not plateau.over:
        rates.append(plateau.rate)
        plateau.look(1.0)

    assert rates == [rate for rate in LOWERED for _ in range(PATIENCE)]


def test_a_gain_at_a_lower_rate_gives_it_time() -> None:
    plateau = Plateau()
    for loss in [1.0] * (PATIENCE + 1) + [0.9] + [0.9] * (PATIENCE - 1):
        plateau.look(loss)

    assert plateau.rate == LOWERED[1]


def test_ever_smaller_gains_are_an_end_too_and_the_best_is_known() -> None:
    plateau, loss = Plateau(), 1.0
    for _ in range(len(LOWERED) * PATIENCE + 1):
        loss *= 1 - GAIN_MIN / 10
        assert plateau.look(loss)

    assert plateau.over
    assert plateau.best == loss


@needs_torch
def test_a_network_is_trained_until_the_loss_on_rows_held_out_stops_falling() -> None:
    effort = Effort(steps=20_000, batch=64, until_converged=True)

    trained = train_network(lessons(), spec_named("NLinear"), Calendar(), effort)

    assert trained.converged
    assert len(LOWERED) * PATIENCE * CHECK_STEPS <= trained.steps < 20_000
    early = train_network(
        lessons(),
        spec_named("NLinear"),
        Calendar(),
        Effort(steps=CHECK_STEPS, batch=64, until_converged=True),
    )
    assert not early.converged
    assert trained.loss < early.loss


@needs_torch
def test_a_budget_that_is_spent_ends_training_that_has_not_converged() -> None:
    spent = iter(np.linspace(0, 1.2, 300))
    effort = Effort(steps=20_000, batch=16, until_converged=True, used=lambda: float(next(spent)))

    trained = train_network(lessons(), spec_named("NLinear"), Calendar(), effort)

    assert not trained.converged
    assert 0 < trained.steps < 300
