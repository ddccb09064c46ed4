"""Pools whose true C(n) is known, and the windows they show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from estimator.throughput import ResourceLoad, StepTimes, ThroughputModel, ThroughputWindow

BATCH = 100
Curve = Callable[[int], float]


def contended(rate: float = 1000.0, *, contention: float = 0.02, coherency: float = 0.0) -> Curve:
    """C(n) = rate·n / (1 + σ(n-1) + κn(n-1))"""
    return lambda n: rate * n / (1 + contention * (n - 1) + coherency * n * (n - 1))


@dataclass(frozen=True)
class Pool:
    """Workers that slow each other by being there, as in the simulator's plants."""

    curve: Curve
    demand_s: float | None = None
    """Of the shard, per sample; None where nobody measures."""
    input_s: float = 0.0
    partitions: int | None = None

    def window(self, workers: int, load: float = 1.0, *, at_s: float = 0.0) -> ThroughputWindow:
        rate = load * self.curve(workers)
        busy = load * workers
        step_s = BATCH * busy / rate
        window = ThroughputWindow(
            at_s=at_s,
            ready=workers,
            samples_per_s=rate,
            busy=busy,
            saturated=load >= 1,
            batch=BATCH,
            partitions=self.partitions,
        )
        if self.demand_s is None:
            return window
        own_s = BATCH * (1 / self.curve(1) - self.demand_s)
        steps = StepTimes(BATCH * self.input_s, own_s, max(0.0, step_s - max(own_s, BATCH * self.input_s)))
        return replace(window, steps=steps, resources=(ResourceLoad("ps-0", rate * self.demand_s),))


def progress_only(window: ThroughputWindow) -> ThroughputWindow:
    """The same window as the consumer group alone shows it."""
    return replace(window, busy=None, steps=None, resources=(), batch=None)


def taught(
    model: ThroughputModel, windows: Iterable[ThroughputWindow], *, each: int = 8, every_s: float = 10.0
) -> ThroughputModel:
    """Show each window `each` times over, time going on; the first after a resize is not learned from."""
    at_s = model.knowledge.at_s or 0.0
    for window in windows:
        for _ in range(each + 1):
            at_s += every_s
            model = model.seen(replace(window, at_s=at_s))
    return model
