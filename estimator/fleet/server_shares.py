"""Who serves how much of the parameters on unequal machines: residual capacity, levelled (BytePS)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from estimator.fleet.errors import InvalidFleet


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that serves parameters, and perhaps trains too."""

    name: str
    bandwidth: float
    """What its network carries, in any unit that all share."""
    background: float = 0.0
    """What others take of that."""
    workers: int = 0
    """Workers of the job on it. What they exchange with its own part does not cross the network."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bandwidth) and self.bandwidth > 0 and self.background >= 0):
            raise InvalidFleet(f"machine {self.name!r} has bandwidth {self.bandwidth}; it is above 0")
        if self.workers < 0:
            raise InvalidFleet(f"machine {self.name!r} has {self.workers} workers")

    @property
    def residual(self) -> float:
        """What is left of its network."""
        return max(0.0, self.bandwidth - self.background)


def parameter_shares(machines: Sequence[Machine]) -> dict[str, float]:
    """The share of the parameters for each machine, so that all are done at the same time.

    With n workers, a machine with m of them that serves a share w moves m·(1-w) for its workers and
    (n-m)·w for the others'. So its time is (m + (n-2m)·w)/residual; the shares that level it and add up
    to 1 are found by bisection. For one worker a machine beside machines without any these are BytePS's.

    >>> shares = parameter_shares([Machine("gpu-1", 1.0, workers=1), Machine("gpu-2", 1.0, workers=1),
    ...                            Machine("gpu-3", 1.0, workers=1), Machine("cpu", 1.0)])
    >>> {name: round(share, 4) for name, share in shares.items()}
    {'gpu-1': 0.2, 'gpu-2': 0.2, 'gpu-3': 0.2, 'cpu': 0.4}
    """
    if not machines or not any(machine.residual > 0 for machine in machines):
        raise InvalidFleet("no machine has anything left to serve parameters with")
    workers = sum(machine.workers for machine in machines) or 1
    low, high = 0.0, 1.0
    while math.fsum(_share_at(machine, high, workers) for machine in machines) < 1.0 and high < 1e12:
        high *= 2.0
    for _ in range(100):
        middle = (low + high) / 2
        if math.fsum(_share_at(machine, middle, workers) for machine in machines) < 1.0:
            low = middle
        else:
            high = middle
    shares = {machine.name: _share_at(machine, high, workers) for machine in machines}
    total = math.fsum(shares.values())
    return {name: share / total for name, share in shares.items()}


def _share_at(machine: Machine, time: float, workers: int) -> float:
    """What a machine can serve in this time, at the residual of its network."""
    slope = workers - 2 * machine.workers
    if machine.residual <= 0:
        return 0.0
    if slope <= 0:
        # Half the workers or more are here: what it serves them costs no network; it may have all.
        return 1.0 if time * machine.residual >= machine.workers + slope else 0.0
    return min(1.0, max(0.0, (time * machine.residual - machine.workers) / slope))


def whole_shards(shares: Mapping[str, float], shards: int) -> dict[str, int]:
    """Shards for each machine, by largest remainder; equal remainders by name.

    >>> whole_shards({"a": 0.5, "b": 0.3, "c": 0.2}, 8)
    {'a': 4, 'b': 2, 'c': 2}
    """
    exact = {name: share * shards for name, share in shares.items()}
    whole = {name: math.floor(count + 1e-9) for name, count in exact.items()}
    left = shards - sum(whole.values())
    for name in sorted(exact, key=lambda name: (whole[name] - exact[name], name))[:left]:
        whole[name] += 1
    return whole


def worker_shares(rates: Mapping[str, float], busy_elsewhere: Mapping[str, float]) -> dict[str, float]:
    """The share of the samples for each worker: its measured rate, less what its machine is busy with.

    Equal shares where nobody has anything left: somebody has to train.
    """
    residual = {name: rate * (1.0 - min(1.0, busy_elsewhere.get(name, 0.0))) for name, rate in rates.items()}
    total = math.fsum(residual.values())
    if total <= 0:
        return {name: 1.0 / len(rates) for name in rates}
    return {name: rate / total for name, rate in residual.items()}
