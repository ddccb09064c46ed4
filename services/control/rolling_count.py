"""How often something happened lately, in a few numbers that are stored with the state."""

from __future__ import annotations

from dataclasses import dataclass, replace

BINS = 12


@dataclass(frozen=True, slots=True)
class RollingCount:
    """Counts over the last `span_s`, in bins of a twelfth of it.

    What happened is counted for at least `span_s`, and for at most a bin longer: whoever acts only
    while the count is below N acts at most N times in any stretch of that length.

    >>> hour = RollingCount(3600.0).noted(0.0).noted(10.0)
    >>> hour.at(3600.0), hour.at(3900.0)
    (2, 0)
    """

    span_s: float
    bins: tuple[tuple[int, int], ...] = ()
    """(number of the bin, how often), oldest first."""

    def at(self, now_s: float) -> int:
        """How often, by now."""
        return sum(count for _, count in self.aged(now_s).bins)

    def aged(self, now_s: float) -> RollingCount:
        """Without what is too old. What a clock that was set back puts into the future counts as of now."""
        now = self._bin(now_s)
        if not self.bins or (self.bins[0][0] >= now - BINS and self.bins[-1][0] <= now):
            return self
        kept: dict[int, int] = {}
        for number, count in self.bins:
            if number >= now - BINS:
                kept[min(number, now)] = kept.get(min(number, now), 0) + count
        return replace(self, bins=tuple(kept.items()))

    def noted(self, now_s: float) -> RollingCount:
        """Once more, now."""
        now, bins = self._bin(now_s), self.aged(now_s).bins
        if bins and bins[-1][0] == now:
            return replace(self, bins=(*bins[:-1], (now, bins[-1][1] + 1)))
        return replace(self, bins=(*bins, (now, 1)))

    def _bin(self, now_s: float) -> int:
        return int(now_s // (self.span_s / BINS))
