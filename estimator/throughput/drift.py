"""Whether what is seen still is what was learned: a cumulative sum over surprises."""

from __future__ import annotations

from dataclasses import dataclass, replace

NOISE_SD = 0.02
"""Of a window's log speed, until it has been measured."""
NOISE_MEMORY = 60.0
NOISE_SD_MIN = 0.03
"""Quieter than this is not worth an alarm: a change of speed below it changes no plan."""
SLACK = 1.5
"""In noise sd. What the fit does not explain of a load that swings stays below it."""
ALARM = 10.0
SURPRISE_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Drift:
    """Two-sided CUSUM (Page): g± <- max(0, g± ± r/sd - SLACK), alarm at g > ALARM.

    r is a window's log speed less the mean of its own row, sd the noise between
    consecutive windows, which a change of level does not inflate. A change by 20 %
    at 5 % noise is noticed after four windows; without a change an alarm takes
    some e^(2·SLACK·ALARM) windows.
    """

    up: float = 0.0
    down: float = 0.0
    noise_sd: float = NOISE_SD
    previous: float | None = None
    """The surprise before this one."""
    alarms: int = 0
    """How often what had been learned was given up."""

    def seen(self, surprise: float) -> Drift:
        """One window of a row that is well known."""
        sd = max(self.noise_sd, NOISE_SD_MIN)
        score = min(max(surprise / sd, -SURPRISE_MAX), SURPRISE_MAX)
        return replace(
            self,
            up=max(0.0, self.up + score - SLACK),
            down=max(0.0, self.down - score - SLACK),
            noise_sd=self._noise_with(surprise),
            previous=surprise,
        )

    @property
    def is_alarmed(self) -> bool:
        return max(self.up, self.down) > ALARM

    def acknowledged(self) -> Drift:
        """After an alarm: quiet again, and counted."""
        return Drift(noise_sd=self.noise_sd, alarms=self.alarms + 1)

    def _noise_with(self, surprise: float) -> float:
        """Root mean square of differences between consecutive surprises, over √2."""
        if self.previous is None:
            return self.noise_sd
        jump = min(abs(surprise - self.previous), 4 * self.noise_sd)
        variance = self.noise_sd**2
        return float((variance + (jump**2 / 2 - variance) / NOISE_MEMORY) ** 0.5)
