"""The utilisation law: what a sample costs a shared resource, from how busy the resource is."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.throughput.window import ResourceLoad

GONE_S = 3600.0
"""A resource that nobody has told of for this long is no longer there."""
MEMORY = 300.0
"""Windows. Long, since a slope needs loads that differ, and a load may last for hours."""
BACKGROUND_SD = 0.02
READING_SD = 0.01
UTILISATION_MAX = 0.95
"""Background work never counts as more of a resource than this: what is left must carry something."""


@dataclass(frozen=True, slots=True)
class Utilisation:
    """ρ = a + D·X of one resource, as running sums; a >= 0 is work for others, D the demand of a sample.

    One window gives D = ρ/X and no a, the safe side. The slope over several loads tells
    the two apart; a prior of zero mean on a keeps noise from passing for background work.

    >>> line = Utilisation("ps-0").seen(ResourceLoad("ps-0", busy=0.3), samples_per_s=100.0)
    >>> round(line.demand_s, 6)
    0.003
    """

    name: str
    weight: float = 0.0
    rate: float = 0.0
    rate_squared: float = 0.0
    busy: float = 0.0
    rate_busy: float = 0.0
    cv2: float | None = None
    latest: float = 0.0
    """ρ in the last window."""
    at_s: float = 0.0
    """When that was."""

    def seen(self, load: ResourceLoad, *, samples_per_s: float, at_s: float = 0.0) -> Utilisation:
        """One window more."""
        keep = 1 - 1 / MEMORY
        busy = min(load.busy, 1.0)
        return Utilisation(
            self.name,
            weight=self.weight * keep + 1,
            rate=self.rate * keep + samples_per_s,
            rate_squared=self.rate_squared * keep + samples_per_s**2,
            busy=self.busy * keep + busy,
            rate_busy=self.rate_busy * keep + samples_per_s * busy,
            cv2=self._cv2(load.service_cv2),
            latest=busy,
            at_s=at_s,
        )

    def line(self) -> tuple[float, float]:
        """(a, D): least squares with a ~ N(0, BACKGROUND_SD²), a >= 0, D >= 0."""
        weight = self.weight + (READING_SD / BACKGROUND_SD) ** 2
        spread = weight * self.rate_squared - self.rate**2
        slope = (weight * self.rate_busy - self.rate * self.busy) / spread if spread > 0 else 0.0
        background = (self.busy - slope * self.rate) / weight
        if background <= 0 or slope <= 0:
            return 0.0, self.rate_busy / self.rate_squared if self.rate_squared > 0 else 0.0
        return min(background, UTILISATION_MAX), slope

    @property
    def demand_s(self) -> float:
        """Seconds of the resource that a sample takes, background work standing in its way: D / (1 - a)."""
        background, slope = self.line()
        return slope / (1 - background)

    def _cv2(self, measured: float | None) -> float | None:
        if measured is None or self.cv2 is None:
            return self.cv2 if measured is None else measured
        return self.cv2 + 0.1 * (measured - self.cv2)
