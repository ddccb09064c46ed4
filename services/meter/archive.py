"""Where the history of a topic outlives the meter, and who carries it there.

Bins go in as they close, at the place that their number gives them: writing one
twice is writing it once, and a bin that was never written is a gap.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import structlog
from numpy.typing import NDArray

from services.control.errors import StateUnavailable
from services.meter.history import RateHistory, Resolution

log = structlog.get_logger()

Bins = NDArray[np.float32]


class HistoryArchive(Protocol):
    """Closed bins of one job's traffic, by resolution."""

    async def load(self, resolution: Resolution, *, now_s: float) -> tuple[int, Bins]:
        """The number of the first bin and the rates up to `now_s`, NaN for gaps. Raises StateUnavailable."""
        ...

    async def save(self, resolution: Resolution, first_bin: int, rates: Bins) -> None:
        """Keep these bins for as long as the resolution says. Raises StateUnavailable."""
        ...


class MemoryArchive:
    """An archive that lasts as long as the process."""

    def __init__(self) -> None:
        self._bins: dict[float, dict[int, float]] = {}

    async def load(self, resolution: Resolution, *, now_s: float) -> tuple[int, Bins]:
        kept = self._bins.get(resolution.step_s, {})
        last = int(now_s // resolution.step_s)
        first = last - resolution.bins
        return first, np.array([kept.get(number, np.nan) for number in range(first, last)], dtype=np.float32)

    async def save(self, resolution: Resolution, first_bin: int, rates: Bins) -> None:
        kept = self._bins.setdefault(resolution.step_s, {})
        for number, rate in enumerate(rates.tolist(), start=first_bin):
            kept[number] = rate
        for number in [number for number in kept if number < first_bin + len(rates) - resolution.bins]:
            del kept[number]


class HistoryKeeper:
    """Brings a history back at the start, and carries newly closed bins to the archive.

    An archive that does not answer costs nothing but time: what was not saved is
    saved later, what was not loaded is loaded later.
    """

    def __init__(self, rates: RateHistory, archive: HistoryArchive, *, every_s: float = 10.0) -> None:
        self._rates = rates
        self._archive = archive
        self._every_s = every_s
        self._next_s = self._retry_s = float("-inf")
        self._restored: set[float] = set()
        self._saved: dict[float, int] = {}
        self.trouble = ""
        """Why the archive could not be used the last time; empty when it could."""

    async def restore(self, *, now_s: float) -> None:
        """Load what is not loaded yet. Does nothing afterwards, and tries now and then until it can."""
        if self._restored == self._rates.grids.keys() or 0 < self._retry_s - now_s <= self._every_s:
            return
        self._retry_s = now_s + self._every_s
        for step_s, grid in self._rates.grids.items():
            if step_s in self._restored:
                continue
            try:
                first, rates = await self._archive.load(grid.resolution, now_s=now_s)
            except StateUnavailable as error:
                self._tell(str(error))
                return
            known = np.flatnonzero(~np.isnan(rates))
            if len(known):
                grid.put(first, rates[: known[-1] + 1])
                self._saved[step_s] = first + int(known[-1]) + 1
            self._restored.add(step_s)

    async def save(self, *, now_s: float) -> None:
        """Save what has closed since the last time, every so often."""
        if 0 < self._next_s - now_s <= self._every_s:  # further ahead, the clock was set back
            return
        self._next_s = now_s + self._every_s
        try:
            for step_s, grid in self._rates.grids.items():
                await self._save(step_s, grid.closed(self._saved.get(step_s, -(2**62))))
        except StateUnavailable as error:
            self._tell(str(error))
            return
        self._tell("")

    def forget_saved(self) -> None:
        """Save everything anew: the past was filled in."""
        self._saved.clear()
        self._next_s = float("-inf")

    async def _save(self, step_s: float, closed: tuple[int, Bins]) -> None:
        first, rates = closed
        known = np.flatnonzero(~np.isnan(rates))
        if step_s not in self._saved and len(known):  # what lies before was never measured
            first, rates = first + int(known[0]), rates[known[0] :]
        if len(known):
            await self._archive.save(self._rates.grids[step_s].resolution, first, rates)
        self._saved[step_s] = first + len(rates)

    def _tell(self, trouble: str) -> None:
        if trouble and not self.trouble:
            log.warning("history_not_archived", trouble=trouble)
        elif self.trouble and not trouble:
            log.info("history_archived_again")
        self.trouble = trouble
