"""Autopilot's horizontal rule."""

from __future__ import annotations

import numpy as np

from estimator.rules.autopilot import AutopilotMemory, autopilot
from forecasting.history import TrafficHistory
from tests.estimator.seeing import situation


def play(busy: list[float], workers: int = 10, **options: float) -> list[int]:
    """The pool's size over five-minute samples of busy fractions, obeying the rule."""
    rule, memory = autopilot(**options), AutopilotMemory()
    sizes, now_s = [], 0.0
    for level in busy:
        for _ in range(5):
            seen = situation(now_s=now_s, requested=workers, ready=workers, busy=level)
            sizing, memory = rule.size(seen, memory)
            workers, now_s = sizing.workers, now_s + 60.0
        sizes.append(workers)
    return sizes


def test_it_grows_at_once() -> None:
    sizes = play([0.8, 0.8, 1.0], horizon_s=300.0, hold_s=300.0)

    assert sizes[-1] > sizes[0]


def test_it_halves_in_an_hour() -> None:
    sizes = play([0.01] * 14, workers=40, horizon_s=300.0, hold_s=300.0, quantile=1.0)

    assert 19 <= sizes[12] <= 22


def test_with_days_in_its_window_a_daily_peak_is_held_all_day() -> None:
    day = np.concatenate([np.full(1380, 100.0), np.full(60, 1000.0)])
    history = TrafficHistory(start_s=-4 * 86_400.0, step_s=60.0, rates=np.tile(day, 4))
    rule = autopilot(quantile=1.0)

    memory, workers = AutopilotMemory(), 2
    for minute in range(12):
        seen = situation(now_s=60.0 * minute, requested=workers, ready=workers, busy=0.5, history=history)
        sizing, memory = rule.size(seen, memory)
        workers = sizing.workers

    assert workers == 13  # 1000/s at 80 % of 100/s a worker, though 100/s is all there is now
