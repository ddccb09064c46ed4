"""One policy on one piece of traffic: the real loop on a simulated world."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from estimator.capacity import Capacity
from estimator.rules import Rule
from estimator.situation import Limits, Slo
from forecasting.forecaster import Forecaster
from services.control.loop import JobLoop, Ports
from services.control.types import Policy, Shuffle
from services.simulator import layout as at
from services.simulator.arrivals import Arrivals
from services.simulator.families import fewest_workers
from services.simulator.plant import Plant
from services.simulator.ports import (
    OneController,
    WorldClock,
    WorldForecasts,
    WorldMeter,
    WorldPool,
    WorldStore,
    WorldTelemetry,
    run_now,
)
from services.simulator.trace import Floats
from services.simulator.world import World

START_UTILISATION = 0.8
HORIZON_S = 3600.0
FAMILIAR = 0.02
"""Contention that a policy assumes where the true curve is of another family."""


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """The traffic of a backtest: what is known before, and what is simulated."""

    before: Floats
    """Rates of the minutes before the world begins."""
    arrivals: Arrivals
    scored_from_s: int
    """Second of `arrivals` at which scoring starts."""

    @property
    def scored(self) -> Arrivals:
        """The part that counts."""
        return self.arrivals.part(self.scored_from_s, len(self.arrivals.per_second))


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What happened. `minutes` are those scored, the last row is the drain; see layout.py for the columns."""

    minutes: Floats
    delays: Floats
    asked: tuple[tuple[int, int], ...]
    """(second of the scored part, workers): the size at its start, then every change asked for."""
    stood_by: tuple[tuple[int, int], ...] = ()
    """(second of the scored part, standbys): every change of how many of those stand by."""
    failures: int = 0
    notes: tuple[str, ...] = field(default=())


def simulate(
    rule: Rule[Any], plant: Plant, course: Course, *, seed: int, forecaster: Forecaster | None = None
) -> Run:
    """Run the rule through the real loop, from the world's first second to the last, then drain."""
    world = World(plant, course.arrivals, seed=seed, scored_from_s=course.scored_from_s)
    world.populate(_first_size(world))
    tick_s = plant.tick_s if rule.period_s is None else max(1, round(rule.period_s))
    loop = _loop(rule, plant, course, world, seed=seed, forecaster=forecaster, tick_s=tick_s)
    for second in range(tick_s, world.end_s, tick_s):
        world.advance(second)
        tick = run_now(loop.tick())
        if tick.error is not None:
            raise tick.error
    world.advance(world.end_s)
    world.drain()
    return _scored(world, course.scored_from_s)


def _first_size(world: World) -> int:
    """At 80 % of its capacity for the first minute, within the limits."""
    plant = world.plant
    rate = float(world.arrivals.per_second[:60].mean())
    curve = world.curve[: plant.most_workers + 1]
    return int(fewest_workers(curve, rate / START_UTILISATION, at_least=plant.workers_min))


def _loop(
    rule: Rule[Any],
    plant: Plant,
    course: Course,
    world: World,
    *,
    seed: int,
    forecaster: Forecaster | None,
    tick_s: int,
) -> JobLoop:
    pool, policy = WorldPool(world), policy_for(rule, plant)
    ports = Ports(
        clock=WorldClock(world),
        leadership=OneController(),
        meter=WorldMeter(world, course.before, tick_s=tick_s),
        forecasts=WorldForecasts(forecaster if rule.foresees else None, horizon_s=HORIZON_S),
        pool=pool,
        telemetry=WorldTelemetry(world, pool, seed=seed, listened_to=policy.learns or rule.reads_busy),
        store=WorldStore(world),
    )
    return JobLoop("backtest", policy, ports, tell=lambda _: None)


def policy_for(rule: Rule[Any], plant: Plant) -> Policy:
    """What an operator of this plant would have set. The true curve is not part of it."""
    contention = plant.contention if plant.family == "contention" else FAMILIAR
    return Policy(
        slo=Slo(plant.slo_s, plant.late_share_target),
        limits=Limits(plant.workers_min, plant.most_workers),
        rule=rule,
        capacity_prior=Capacity(plant.rate_per_worker, contention),
        lead_time_s=max(plant.startup_late_s, 1.0),
        pause_s=plant.pause_s if plant.shuffle.stops_all else 0.0,
        stale_after_s=3600.0,
        shuffle=Shuffle.OFF if plant.shuffle.is_group else Shuffle.LEASES,
        standbys=None if plant.standbys == "auto" else plant.standbys,
        learns=rule.reads_learned or plant.standbys == "auto",
    )


def _scored(world: World, scored_from_s: int) -> Run:
    before = [workers for second, workers in world.asked if second <= scored_from_s]
    first = before[-1] if before else _first_size(world)
    asked = [(0, first)]
    asked += [(s - scored_from_s, n) for s, n in world.asked if scored_from_s < s < world.end_s]
    return Run(
        minutes=world.minutes[scored_from_s // 60 :].copy(),
        delays=world.delays,
        asked=tuple(asked),
        stood_by=tuple((max(0, s - scored_from_s), n) for s, n in world.stood_by if s < world.end_s),
        failures=int(world.count[at.FAILURES]),
    )
