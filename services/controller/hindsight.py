"""What was forecast for the time that has come since."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from forecasting.forecast import Forecast

BANDS = (0.1, 0.5, 0.95)
"""The low, the middle and the high path that are remembered."""
KEPT = 360


@dataclass(frozen=True, slots=True)
class Said:
    """The rate that was forecast for `at_s`, a lead time before."""

    at_s: float
    low: float
    middle: float
    high: float


class Hindsight:
    """Remembers, of each forecast, the bin that lies `lead_s` ahead: what scaling had to go by."""

    def __init__(self, *, kept: int = KEPT) -> None:
        self._said: deque[Said] = deque(maxlen=kept)

    def told(self, forecast: Forecast, *, lead_s: float) -> None:
        """Take one forecast in. The same forecast told twice counts once."""
        steps = forecast.paths.shape[1]
        ahead = min(max(int(lead_s // forecast.step_s), 0), steps - 1)
        at_s = forecast.issued_at_s + (ahead + 0.5) * forecast.step_s
        if self._said and at_s <= self._said[-1].at_s:
            return
        low, middle, high = (float(forecast.path(level)[ahead]) for level in BANDS)
        self._said.append(Said(at_s, low, middle, high))

    def until(self, now_s: float) -> tuple[Said, ...]:
        """Everything that was said of the time up to `now_s`, and the one after, oldest first."""
        past = [said for said in self._said if said.at_s <= now_s]
        return (*past, *[said for said in self._said if said.at_s > now_s][:1])
