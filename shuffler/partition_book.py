"""What a ledger knows of one partition: what was never given out, and what came back."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Final

RETURNED: Final = float("-inf")
"""What came back has waited longest, whatever the clock says."""


@dataclass(slots=True)
class PartitionBook:
    """Below `next` everything is out, returned, given up or done; from there on nothing was given out."""

    next: int
    end: int
    returned: list[tuple[int, int, int]] = field(default_factory=list)
    """Ranges to give out again, with how often they lapsed."""
    quarantined: list[tuple[int, int]] = field(default_factory=list)
    waiting_since_s: float | None = None
    """Set while something is unleased: since when nobody has taken from it."""

    def unleased(self) -> int:
        """Offsets that may be given out."""
        return self.end - self.next + sum(stop - start for start, stop, _ in self.returned)

    def extend(self, end: int, *, now_s: float) -> None:
        """Offsets below `end` may be given out, if that is further than before."""
        if end > self.end:
            self.end = end
            if self.waiting_since_s is None:
                self.waiting_since_s = now_s

    def take(self, samples: int, *, now_s: float) -> tuple[int, int, int]:
        """A range of at most `samples`, what was returned first, and how often it lapsed."""
        lapses = 0
        if self.returned:
            start, stop, lapses = self.returned.pop(0)
            end = min(stop, start + samples_again(samples, lapses))
            if end < stop:
                self.returned.insert(0, (end, stop, lapses))
        else:
            start, end = self.next, min(self.end, self.next + samples)
            self.next = end
        if not self.unleased():
            self.waiting_since_s = None
        elif not self.returned:
            self.waiting_since_s = now_s
        return start, end, lapses

    def take_back(self, start: int, end: int, lapses: int) -> None:
        """[start, end) is to be given out again."""
        insort(self.returned, (start, end, lapses))
        self.waiting_since_s = RETURNED

    def give_up(self, start: int, end: int) -> None:
        """[start, end) is not to be given out again."""
        insort(self.quarantined, (start, end))


def samples_again(samples: int, lapses: int) -> int:
    """How many samples of a range to give out again that lapsed so often: the first time all.

    >>> [samples_again(1000, lapses) for lapses in range(5)]
    [1000, 1000, 125, 15, 1]
    """
    return max(1, samples >> 3 * max(0, lapses - 1))
