"""What the first seconds of a bin tell of the whole: as much as they did of bins before.

Producers send in batches and traffic gusts, so a rate over ten seconds may be far from that of its minute.
Believed as it is, every gust is a jump to be planned for at once, and the pool flaps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

PARTS = 6
"""A bin is looked at in so many parts: the more of it has passed, the more its rate so far says."""
MEMORY = 200
"""Bins that are remembered."""
FAR = 3.0
"""A rate so far is corrected by no more than so many of its usual errors: what lies further from what was
expected is no gust."""


@dataclass(frozen=True, slots=True)
class Glimpses:
    """How far the rate so far used to be from that of the whole bin, by the part that had passed."""

    errors: tuple[float, ...] = (0.0,) * PARTS
    """Mean squared differences."""
    squares: tuple[float, ...] = (0.0,) * PARTS
    """Mean squared rates of the whole bins: busy ones decide, as they do about workers."""
    counts: tuple[int, ...] = (0,) * PARTS
    so_far: tuple[float | None, ...] = (None,) * PARTS
    """Of the bin that is filling; None for parts at which nobody looked."""

    def seen(self, rate_per_s: float, share: float) -> Glimpses:
        """The bin that is filling has had this rate so far, when `share` of it had passed."""
        part = _part(share)
        return replace(self, so_far=(*self.so_far[:part], rate_per_s, *self.so_far[part + 1 :]))

    def closed(self, rate_per_s: float | None) -> Glimpses:
        """The bin is over, and had this rate; None where that is not known.

        >>> gusty = Glimpses().seen(80.0, 0.2).closed(100.0).seen(120.0, 0.2).closed(100.0)
        >>> round(gusty.variance(0.2, usual=0.2), 6), round(gusty.variance(0.9, usual=0.2), 6)
        (0.04, 0.04)
        """
        if rate_per_s is None or not rate_per_s >= 0:
            return replace(self, so_far=(None,) * PARTS)
        errors, squares, counts = list(self.errors), list(self.squares), list(self.counts)
        for part, glimpse in enumerate(self.so_far):
            if glimpse is None:
                continue
            counts[part] = min(counts[part] + 1, MEMORY)
            errors[part] += ((glimpse - rate_per_s) ** 2 - errors[part]) / counts[part]
            squares[part] += (rate_per_s**2 - squares[part]) / counts[part]
        return Glimpses(tuple(errors), tuple(squares), tuple(counts))

    def variance(self, share: float, *, usual: float) -> float:
        """Of the logarithm of the rate so far around that of the whole bin.

        As long as nothing is known it is as sure as what was expected, which errs by `usual`.
        """
        part = _part(share)
        count, square = self.counts[part], self.squares[part]
        learned = self.errors[part] / square if square > 0 else 0.0
        return (count * learned + usual**2) / (count + 1)

    def level(self, seen: float, share: float, *, expected: float, usual: float) -> tuple[float, float]:
        """Log rate of the bin that is filling, and its variance: what is seen of it and what was expected,
        each as sure as it used to be.

        >>> calm = Glimpses(counts=(99,) * PARTS, squares=(1.0,) * PARTS)
        >>> round(calm.level(1.0, 0.2, expected=0.0, usual=0.1)[0], 2)
        0.99
        >>> gusty = replace(calm, errors=(0.04,) * PARTS)
        >>> [round(gusty.level(seen, 0.2, expected=0.0, usual=0.1)[0], 2) for seen in (0.2, 1.0)]
        [0.04, 0.4]
        """
        variance = self.variance(share, usual=usual)
        doubt = variance / (variance + usual**2)
        most = FAR * math.sqrt(variance)
        return seen + min(max(doubt * (expected - seen), -most), most), doubt * usual**2


def _part(share: float) -> int:
    return min(max(int(share * PARTS), 0), PARTS - 1)
