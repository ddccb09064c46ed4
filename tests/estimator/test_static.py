"""Fixed pools."""

from __future__ import annotations

from estimator.capacity import Capacity
from estimator.rules.static import StaticMemory, static_max, static_mean
from tests.estimator.seeing import situation


def test_sized_once_and_held_whatever_is_learned_later() -> None:
    rule = static_max(rate_per_s=800.0, utilisation=0.8)
    first, memory = rule.size(situation(), StaticMemory())
    later, _ = rule.size(situation(capacity=Capacity(10.0)), memory)

    assert (first.workers, later.workers) == (10, 10)


def test_the_mean_has_no_headroom() -> None:
    sizing, _ = static_mean(rate_per_s=800.0).size(situation(), StaticMemory())

    assert sizing.workers == 8
