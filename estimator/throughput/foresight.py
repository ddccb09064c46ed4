"""How good predictions turned out after each resize, and whether the resize was any use."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

ERROR_SD = 0.05
"""Of a one-step-ahead prediction, until some have been scored."""
ERROR_SD_AFTER_DRIFT = 0.1
MEMORY = 8
TRIAL_WINDOWS = 5
TRIAL_WINDOWS_MAX = 30
USEFUL = 0.2
"""A resize that brings less than this share of the gain expected was no use."""
JUDGEABLE = 0.05
"""A gain expected to be smaller than this share of capacity drowns in noise."""


@dataclass(frozen=True, slots=True)
class Foresight:
    """s: running root mean square of log(predicted / seen) at sizes that were new.

    Sizes seen before teach nothing about how far the laws can be trusted beyond what was seen.
    """

    error_sd: float = ERROR_SD
    scored: int = 0

    def scored_with(self, error: float) -> Foresight:
        """One prediction more came true, or did not."""
        weight = 1 / (min(self.scored, MEMORY) + 3)  # the prior counts as two
        variance = self.error_sd**2 + weight * (error**2 - self.error_sd**2)
        return Foresight(math.sqrt(variance), self.scored + 1)


@dataclass(frozen=True, slots=True)
class Trial:
    """A resize under observation: what was expected of it, and what is seen so far."""

    workers_before: int
    capacity_before: float
    workers: int
    gain_expected: float
    is_new_ground: bool
    foretold: float | None = None
    """Log speed predicted for the first window after the resize."""
    windows: int = 0
    log_speed: float = 0.0
    """Mean so far."""

    def seen(self, log_speed: float, *, foretold: float) -> Trial:
        """One window more; `foretold` counts for the first alone, before anything is learned from it."""
        windows = self.windows + 1
        return replace(
            self,
            foretold=foretold if self.foretold is None else self.foretold,
            windows=windows,
            log_speed=self.log_speed + (log_speed - self.log_speed) / windows,
        )

    @property
    def error(self) -> float:
        """log(predicted / seen)"""
        return 0.0 if self.foretold is None else self.foretold - self.log_speed

    @property
    def capacity(self) -> float:
        """What the workers can train by what is seen; below full load, at most that."""
        return self.workers * math.exp(self.log_speed)

    def verdict(self, noise_sd: float) -> bool | None:
        """Whether the resize was useful; None while noise could still turn the answer.

        Shrinking, and growing for too little to tell, pass as useful.
        """
        if self.windows < TRIAL_WINDOWS:
            return None
        if self.workers <= self.workers_before or self.gain_expected < JUDGEABLE * self.capacity_before:
            return True
        short = USEFUL * self.gain_expected - (self.capacity - self.capacity_before)
        doubt = 2 * noise_sd / math.sqrt(self.windows) * self.capacity
        if abs(short) > doubt or self.windows >= TRIAL_WINDOWS_MAX:
            return short <= 0
        return None
