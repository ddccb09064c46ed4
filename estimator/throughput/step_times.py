"""Where a busy worker's time goes, as running means."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.throughput.window import Point, StepTimes, ThroughputWindow

MEMORY = 30.0
"""Windows that the means remember."""


@dataclass(frozen=True, slots=True)
class StepMeans:
    """Seconds of a busy worker per *sample*."""

    count: float
    cycle_s: float
    """From one sample to the next."""
    parts: StepTimes
    """The cycle's parts."""

    def seen(self, new: StepMeans) -> StepMeans:
        """One window more."""
        count = min(self.count + 1, MEMORY)
        weight = 1 / count
        old, parts = self.parts, new.parts
        return StepMeans(
            count,
            self.cycle_s + weight * (new.cycle_s - self.cycle_s),
            StepTimes(
                old.input_s + weight * (parts.input_s - old.input_s),
                old.compute_s + weight * (parts.compute_s - old.compute_s),
                old.wait_s + weight * (parts.wait_s - old.wait_s),
            ),
        )

    def lone_speed(self, demand_s: float) -> float:
        """Samples/s of a worker that meets nobody at the shared resource.

        Its own time Z is the cycle without the wait, and no less than its longest part,
        should a wait be reported that ran beside the compute. To that comes its own
        service, D, as far as it was waited for.
        """
        own_s = max(self.cycle_s - self.parts.wait_s, self.parts.input_s, self.parts.compute_s)
        return 1 / (own_s + min(demand_s, max(0.0, self.cycle_s - own_s)))


def step_means_of(window: ThroughputWindow, point: Point) -> StepMeans | None:
    """What a single window shows; None where nobody measures."""
    if window.steps is None or window.batch is None:
        return None
    whole, batch = window.steps, window.batch
    parts = StepTimes(whole.input_s / batch, whole.compute_s / batch, whole.wait_s / batch)
    return StepMeans(1.0, point.busy / window.samples_per_s, parts)
