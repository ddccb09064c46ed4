"""What keeps more workers from training more."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from estimator.throughput.window import StepTimes

BINDING = 0.8
"""A shared resource busier than this is what limits."""

PROOF = 1.5
"""Times as many workers without a gain prove that no number of them brings one."""


class Bottleneck(StrEnum):
    """Used as metric label, log field and API field, so the set is closed."""

    GPU = "gpu"
    """Workers compute most of the time: more of them train more."""
    INPUT_CPU = "input_cpu"
    """Reading and decoding takes longer than the GPU."""
    PARAMETER_SERVER = "parameter_server"
    """A shard of it, or its network."""
    PARTITIONS = "partitions"
    """Without leases a worker beyond the partitions idles."""
    UNKNOWN = "unknown"
    """No telemetry tells."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The bottleneck, and which resource it is where there are several."""

    bottleneck: Bottleneck = Bottleneck.UNKNOWN
    resource: str = ""


@dataclass(frozen=True, slots=True)
class Wall:
    """A resize from `workers` to `tried` that gave next to nothing: `samples_per_s` is all there is.

    Where `tried` was half as much again, that goes for any size. A smaller step may have been that
    of a staircase, the last worker on a host that is short of CPU: then it goes for `tried` alone,
    and the next step tells.
    """

    at_s: float
    workers: int
    tried: int
    samples_per_s: float
    binding: Binding

    def bounds(self, workers: int) -> bool:
        """Whether C(`workers`) can be no more than what was seen."""
        return workers <= self.tried or self.tried >= PROOF * self.workers


def binding_of(
    *, workers: int, partitions: int | None, loads: dict[str, float], steps: StepTimes | None
) -> Binding:
    """What limits `workers` workers, given how busy each shared resource would be with them.

    >>> binding_of(workers=4, partitions=None, loads={"ps-0": 0.4, "ps-1": 0.9}, steps=None)
    Binding(bottleneck=<Bottleneck.PARAMETER_SERVER: 'parameter_server'>, resource='ps-1')
    """
    if partitions is not None and workers > partitions:
        return Binding(Bottleneck.PARTITIONS)
    busiest = max(loads, key=lambda name: loads[name], default=None)
    if busiest is not None and loads[busiest] >= BINDING:
        return Binding(Bottleneck.PARAMETER_SERVER, busiest)
    if steps is None:
        return Binding()
    return Binding(Bottleneck.INPUT_CPU if steps.input_s > steps.compute_s else Bottleneck.GPU)
