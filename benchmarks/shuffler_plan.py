"""How well and how fast `rebalance` plans, and what leases make of it: nothing here needs a server."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Mapping, Sequence

from shuffler.assignment import Assignment
from shuffler.ledger import Ledger, Terms
from shuffler.rebalance import rebalance

SPREAD = 0.35
"""Coefficient of variation of the workers' speeds."""


def _speeds(workers: int, chance: random.Random) -> dict[str, float]:
    return {f"w{n}": max(0.2, chance.gauss(1.0, SPREAD)) * 100 for n in range(workers)}


def _zipf(partitions: int, total: float, chance: random.Random) -> list[float]:
    weights = [1 / (rank + 1) ** 1.1 for rank in range(partitions)]
    chance.shuffle(weights)
    return [total * weight / sum(weights) for weight in weights]


def _by_owner(owners: Sequence[str], loads: Sequence[float], speeds: Mapping[str, float]) -> float:
    """Samples a second that whole partitions give: each owner trains what it has, up to its speed."""
    carried = dict.fromkeys(speeds, 0.0)
    for owner, load in zip(owners, loads, strict=True):
        carried[owner] += load
    return sum(min(carried[worker], speed) for worker, speed in speeds.items())


def _by_leases(loads: Sequence[float], speeds: Mapping[str, float], *, seconds: int) -> float:
    """The same from the ledger itself, played on a virtual clock with the plan's preferences."""
    plan, _ = rebalance(Assignment(), loads, speeds)
    ledger = Ledger(Terms())
    ledger.open(dict.fromkeys(range(len(loads)), 0), now_s=0.0)
    free_at_s = dict.fromkeys(speeds, 0.0)
    trained, now_s = 0, 0.0
    prefer = {worker: plan.partitions_of(worker) for worker in speeds}
    while now_s < seconds:
        now_s += 0.05
        ledger.extend({p: int(load * now_s) for p, load in enumerate(loads)}, now_s=now_s)
        for worker, speed in speeds.items():
            while free_at_s[worker] <= now_s:
                lease = ledger.acquire(worker, samples=round(speed), prefer=prefer[worker], now_s=now_s)
                if lease is None:
                    free_at_s[worker] = now_s + 0.01
                    break
                size = lease.end - lease.start
                free_at_s[worker] = max(free_at_s[worker], now_s - 0.05) + size / speed
                ledger.complete(lease, trained=size, late=0)
                trained += size
    return trained / seconds


def balance(*, seed: int = 1) -> dict[str, float]:
    """Delivered throughput as a share of the ideal, at 95 % of the capacity, and with more workers than
    partitions."""
    chance = random.Random(seed)  # noqa: S311 - a benchmark is to be repeatable
    shares: dict[str, list[float]] = {}
    for partitions, workers in ((32, 8), (64, 12), (6, 10)):
        few = "_few_partitions" if workers > partitions else ""
        for _ in range(3):
            speeds = _speeds(workers, chance)
            loads = _zipf(partitions, 0.95 * sum(speeds.values()), chance)
            names = list(speeds)
            robin = [names[p % workers] for p in range(partitions)]
            ranges = [names[p * min(workers, partitions) // partitions] for p in range(partitions)]
            ideal = sum(loads)
            found = {
                "leases": _by_leases(loads, speeds, seconds=30),
                "round_robin_and_sticky": _by_owner(robin, loads, speeds),
                "range": _by_owner(ranges, loads, speeds),
            }
            for name, rate in found.items():
                shares.setdefault(f"balance_{name}{few}_share", []).append(rate / ideal)
    return {name: sum(several) / len(several) for name, several in shares.items()}


def speed(*, partitions: int = 100_000, workers: int = 1_000) -> dict[str, float]:
    """Seconds of CPU for a plan from nothing, and for the loss of a tenth of the workers."""
    chance = random.Random(2)  # noqa: S311
    speeds = _speeds(workers, chance)
    loads = [chance.paretovariate(1.2) for _ in range(partitions)]
    began_s = time.process_time()
    first, _ = rebalance(Assignment(), loads, speeds)
    cold_s = time.process_time() - began_s
    fewer = dict(list(speeds.items())[: workers * 9 // 10])
    began_s = time.process_time()
    rebalance(first, loads, fewer)
    return {"plan_100k_cold_s": cold_s, "plan_100k_shrink_s": time.process_time() - began_s}


def moves(*, cases: int = 60) -> dict[str, float]:
    """Partitions that changed hands, against the fewest that bring the peak as low (by trying all)."""
    chance, changed, fewest = random.Random(3), 0, 0  # noqa: S311
    for _ in range(cases):
        loads = [float(chance.randint(1, 9)) for _ in range(chance.randint(4, 7))]
        workers = chance.randint(2, 3)
        names = [f"w{n}" for n in range(workers + chance.choice([-1, 1]))]
        before, _ = rebalance(Assignment(), loads, {f"w{n}": 1.0 for n in range(workers)})
        after, _ = rebalance(before, loads, dict.fromkeys(names, 1.0))
        if any(len(owners) > 1 for owners in (*before.owners.values(), *after.owners.values())):
            continue
        peak = _peak([after.owners[p][0] for p in range(len(loads))], loads, names)
        changed += sum(before.owners[p] != after.owners[p] for p in before.owners)
        fewest += min(
            sum(before.owners[p] != (name,) for p, name in enumerate(choice))
            for choice in itertools.product(names, repeat=len(loads))
            if _peak(choice, loads, names) <= peak * (1 + 1e-9)
        )
    return {"moves": float(changed), "moves_fewest": float(fewest), "moves_ratio": changed / max(1, fewest)}


def _peak(owners: Sequence[str], loads: Sequence[float], names: Sequence[str]) -> float:
    carried = dict.fromkeys(names, 0.0)
    for owner, load in zip(owners, loads, strict=True):
        carried[owner] += load
    return max(carried.values())
