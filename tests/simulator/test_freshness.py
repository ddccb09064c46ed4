"""What lateness costs in AUC: as measured, and never made up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.capacity import Capacity
from forecasting.history import TrafficHistory
from services.api.replay import answer
from services.api.what_if import Question
from services.settings import JobSettings
from services.simulator.freshness import delays_s, expected_auc_loss
from services.simulator.layout import DELAY_BINS

CURVES = st.dictionaries(st.floats(0, 1e5), st.floats(0, 1), min_size=1, max_size=6)
COUNTS = st.dictionaries(st.integers(0, DELAY_BINS - 1), st.floats(1, 1e6), min_size=1, max_size=8)


def _histogram(counts: dict[int, float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    delays = np.zeros(DELAY_BINS)
    delays[list(counts)] = list(counts.values())
    return delays


@given(curve=CURVES, counts=COUNTS, stretch=st.floats(0.5, 200))
def test_a_loss_is_within_what_was_measured(
    curve: dict[float, float], counts: dict[int, float], stretch: float
) -> None:
    loss = expected_auc_loss(curve, _histogram(counts), stretch=stretch)

    fresh = curve[min(curve)]
    assert loss is not None
    assert fresh - max(curve.values()) - 1e-9 <= loss <= fresh - min(curve.values()) + 1e-9


def test_later_training_loses_more_and_punctual_training_nothing() -> None:
    curve = {0.0: 0.80, 60.0: 0.78, 3600.0: 0.70}
    losses = [expected_auc_loss(curve, _histogram({int(late): 5.0})) for late in (0, 60, 600, 3600, 7000)]

    assert losses[0] == 0.0
    assert losses[1] == pytest.approx(0.02)
    assert losses == sorted(losses, key=lambda loss: loss or 0.0)
    assert losses[-1] == pytest.approx(0.10), "flat beyond what was measured"


def test_where_nothing_is_known_nothing_is_told() -> None:
    assert expected_auc_loss({}, _histogram({3: 1.0})) is None
    assert expected_auc_loss({0.0: 0.8}, np.zeros(DELAY_BINS)) is None
    assert len(delays_s()) == DELAY_BINS


def test_what_if_tells_it_of_a_pool_that_is_too_small() -> None:
    """Traffic that one worker cannot carry is late, and what that costs is told."""
    history = TrafficHistory(start_s=0.0, step_s=300.0, rates=np.full(2 * 288, 150.0))
    curve = {"0": 0.80, "60": 0.78, "3600": 0.70}

    def asked(workers_max: int, **known: object) -> float | None:
        job = JobSettings.model_validate(
            {"topic": "clicks", "scaling": {"workers_max": workers_max, "rule": "reactive"}, **known}
        )
        told = answer(Question(job, Capacity(100.0, contention=0.0), history))
        return told.points[0].auc_loss

    assert asked(4) is None
    enough, too_few = asked(4, auc_by_delay_s=curve), asked(1, auc_by_delay_s=curve)
    assert enough is not None
    assert too_few is not None
    assert enough < 0.01 < too_few <= 0.1001
