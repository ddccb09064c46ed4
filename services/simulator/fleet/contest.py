"""Many policies on one fleet, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from services.simulator.errors import UnknownPolicy
from services.simulator.fleet.builtin import load_of
from services.simulator.fleet.figures import FleetFigures, fleet_figures
from services.simulator.fleet.file import FleetFile
from services.simulator.fleet.first_come import FirstCome, StaticQuotas
from services.simulator.fleet.gavel import Gavel
from services.simulator.fleet.penstock import PenstockFleet
from services.simulator.fleet.run import FleetRun, simulate_fleet
from services.simulator.fleet.seen import FleetPolicy
from services.simulator.fleet.sia import Sia
from services.simulator.fleet.traffic import FleetTraffic, traffic_of
from services.simulator.trace import Floats

POLICIES: Mapping[str, Callable[[FleetFile, FleetTraffic], FleetPolicy]] = {
    "penstock": PenstockFleet,
    "static": StaticQuotas,
    "fcfs": FirstCome,
    "gavel": Gavel,
    "sia": Sia,
}
"""In the order in which tables show them."""


@dataclass(frozen=True, slots=True)
class JudgedFleet:
    """One policy's run and figures."""

    policy: str
    figures: FleetFigures
    run: FleetRun = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class FleetVerdict:
    """All policies on a fleet, and how much of it the jobs needed."""

    name: str
    fleet: FleetFile
    seed: int
    traffic: FleetTraffic
    load: Floats
    """Of the scored part, at best on all types together; above 1 somebody must wait."""
    judged: tuple[JudgedFleet, ...]


def judge_fleet(
    name: str,
    fleet: FleetFile,
    policies: Sequence[str] = (),
    *,
    seed: int = 1,
    days: float | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> FleetVerdict:
    """Play every policy on the same traffic. `tell` hears of each one done."""
    chosen = tuple(policies) or tuple(POLICIES)
    for policy in chosen:
        if policy not in POLICIES:
            raise UnknownPolicy(f"no fleet policy is called {policy!r}; there are {', '.join(POLICIES)}")
    traffic = traffic_of(fleet, seed=seed, days=days)
    judged = []
    for policy in chosen:
        run = simulate_fleet(POLICIES[policy](fleet, traffic), fleet, traffic, seed=seed)
        judged.append(JudgedFleet(policy, fleet_figures(run, fleet), run))
        tell(policy)
    load = load_of(fleet, traffic.judged) if traffic.judged.shape[1] >= 15 else np.zeros(0)
    return FleetVerdict(name, fleet, seed, traffic, load, tuple(judged))
