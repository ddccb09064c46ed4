"""The rule in seeded worlds: pools that fail, meters with holes, traffic beyond any pool.

A failure is reproduced by its seed alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from estimator.capacity import Capacity
from estimator.rules.penstock import penstock
from estimator.rules.rule import Rule
from estimator.situation import Limits, Situation, Sizing, Slo
from tests.estimator.planner.histories import NOW_S, history

PER_WORKER = 100.0
LIMITS = Limits(1, 12)
LEAD_S = 180.0
MINUTES = 90
CALM_FROM = 45
"""From this minute on traffic is steady and nothing fails: the pool must come to rest."""


class World:
    """A queue with a pool that starts slowly, dies now and then, and may refuse for a while."""

    def __init__(self, seed: int, rule: Rule[Any]) -> None:
        self.dice = np.random.default_rng(seed)
        self.rule, self.memory = rule, rule.memory()
        past = 500.0 * np.exp(0.05 * self.dice.standard_normal(500))
        self.seen_rates = list(past)
        self.requested, self.ready = 6, 6
        self.starting: list[float] = []
        self.lag = 0.0
        self.broken_until = int(self.dice.integers(0, 30)) if self.dice.random() < 0.3 else 0
        self.asked: list[int] = []
        self.answers: list[Sizing] = []

    def minute(self, minute: int) -> None:
        """Traffic comes, the pool changes, the rule is asked."""
        now_s, calm = NOW_S + 60.0 * minute + 10.0, minute >= CALM_FROM
        rate = 500.0 if calm else 500.0 * math.exp(self.dice.normal(0.0, 0.9))
        self._pool(now_s, calm, minute)
        served = self.ready * PER_WORKER * 60.0
        self.lag = max(0.0, self.lag + rate * 60.0 - served)
        measured = math.nan if not calm and self.dice.random() < 0.05 else rate
        self.seen_rates.append(measured)
        sizing, self.memory = self.rule.size(self._situation(now_s, rate), self.memory)
        self.answers.append(sizing)
        # As the tick does: one more than there may be only says that the limit binds.
        self._resize(min(sizing.workers, LIMITS.workers_max), now_s)

    def _pool(self, now_s: float, calm: bool, minute: int) -> None:
        if not calm and self.ready and self.dice.random() < 0.1:
            self.ready -= 1
            self.starting.append(now_s)
        if minute >= self.broken_until:
            due = [at_s for at_s in self.starting if now_s - at_s >= LEAD_S]
            self.starting = [at_s for at_s in self.starting if now_s - at_s < LEAD_S]
            self.ready += len(due)

    def _situation(self, now_s: float, rate: float) -> Situation:
        end_s = now_s - 10.0
        return Situation(
            now_s=now_s, rate_per_s=rate, lag=self.lag, lag_s=self.lag / 500.0,
            trained_per_s=min(self.ready * PER_WORKER, rate + self.lag), requested=self.requested,
            ready=self.ready, busy=None, capacity=Capacity(PER_WORKER, contention=0.0), slo=Slo(60.0, 0.01),
            limits=LIMITS, lead_time_s=LEAD_S, pause_s=0.0,
            history=history(np.array(self.seen_rates[:-1]), end_s=end_s),
            starting_since_s=tuple(self.starting),
        )  # fmt: skip

    def _resize(self, workers: int, now_s: float) -> None:
        if workers != self.requested:
            self.asked.append(workers)
        self.starting += [now_s] * (workers - self.requested)
        for _ in range(self.requested - workers):
            if self.starting:
                self.starting.pop()
            else:
                self.ready = max(self.ready - 1, 0)
        self.requested = workers


def lived(seed: int, rule: Rule[Any]) -> World:
    """A world after all its minutes."""
    world = World(seed, rule)
    for minute in range(MINUTES):
        world.minute(minute)
    return world


def stays_in_limits(world: World) -> bool:
    return all(LIMITS.workers_min <= sizing.workers <= LIMITS.workers_max + 1 for sizing in world.answers)


def says_only_numbers(world: World) -> bool:
    return all(math.isfinite(value) for sizing in world.answers for value in sizing.numbers.values())


def drains_its_backlog(world: World) -> bool:
    return world.lag <= 500.0 * 60.0


def comes_to_rest(world: World) -> bool:
    """Six workers are enough for the traffic of the end; some doubt after a wild hour is allowed."""
    last = [sizing.workers for sizing in world.answers[-10:]]
    return 5 <= min(last) <= max(last) <= 9


CHECKS = (stays_in_limits, says_only_numbers, drains_its_backlog, comes_to_rest)


@pytest.mark.parametrize("seed", range(100))
def test_whatever_fails(seed: int) -> None:
    world = lived(seed, penstock())

    for check in CHECKS:
        assert check(world), f"{check.__name__}, {seed=}"


def broken(twist: Callable[[Situation, Sizing], Sizing]) -> Rule[Any]:
    """The rule with its answer twisted."""
    rule = penstock()

    def size(seen: Situation, memory: Any) -> tuple[Sizing, Any]:
        sizing, memory = rule.size(seen, memory)
        return twist(seen, sizing), memory

    return Rule("broken", rule.memory, size)


def grows_on(seen: Situation, said: Sizing) -> Sizing:
    return Sizing(said.workers + 2 * (seen.lag > 1e5), said.reason)


def says_nonsense(seen: Situation, said: Sizing) -> Sizing:
    return Sizing(said.workers, said.reason, {"late": math.nan if seen.lag else 0.0})


def is_stingy(seen: Situation, said: Sizing) -> Sizing:
    del seen
    return Sizing(min(said.workers, 5), said.reason)


def flaps(seen: Situation, said: Sizing) -> Sizing:
    return Sizing(max(1, said.workers - 4 * (int(seen.now_s) // 60 % 2)), said.reason)


@pytest.mark.parametrize(
    ("check", "twist"),
    [
        (stays_in_limits, grows_on),
        (says_only_numbers, says_nonsense),
        (drains_its_backlog, is_stingy),
        (comes_to_rest, flaps),
    ],
)
def test_each_check_catches_a_rule_that_breaks_it(
    check: Callable[[World], bool], twist: Callable[[Situation, Sizing], Sizing]
) -> None:
    assert not all(check(lived(seed, broken(twist))) for seed in range(5))
