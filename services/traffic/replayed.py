"""A log of labelled interactions as traffic: each sent when its time has come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.history import Rates
from services.samples.layout import Samples, encode
from services.traffic.generator import SLOT_S


@dataclass(slots=True)
class ReplayedSamples:
    """Both the shape and the samples of a log. `speed_up` is that of the playback."""

    samples: Samples
    """In the order of their events."""
    speed_up: float = 1.0
    made: int = 0
    """Samples sent so far."""

    @property
    def hidden_auc(self) -> float | None:
        """Nobody knows the model behind real labels."""
        return None

    @property
    def start_s(self) -> float:
        """Of the first event."""
        return float(self.samples.at_s[0])

    @property
    def end_s(self) -> float:
        """After the last event, with a slot to send it in."""
        return float(self.samples.at_s[-1]) + 1.5 * SLOT_S * self.speed_up

    def rates(self, at_s: NDArray[np.float64]) -> Rates:
        """Samples a wall second around each of these instants."""
        around_s = 0.5 * self.speed_up
        ends = np.searchsorted(self.samples.at_s, at_s + around_s)
        rates: Rates = (ends - np.searchsorted(self.samples.at_s, at_s - around_s)).astype(np.float64)
        return rates

    def make(self, count: int, *, at_s: float, simulated_s: float) -> list[tuple[bytes, bytes]]:
        """Those whose time has come, keyed by their first id; their event time is `at_s`, the time of the
        replay, so that their age when trained means something. `count` is a guess, and not heeded."""
        del count
        upto = int(np.searchsorted(self.samples.at_s, simulated_s, side="right"))
        due = self.samples.taken(np.arange(self.made, max(self.made, upto)))
        self.made += len(due)
        now = Samples(due.labels, np.full(len(due), at_s), due.ids, due.numbers)
        return list(zip((b"%d" % key for key in due.ids[:, 0].tolist()), encode(now), strict=True))
