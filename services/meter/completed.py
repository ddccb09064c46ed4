"""Which offsets were trained between two looks at a ledger. Pure.

Leases complete in any order, so the watermark alone says neither what was trained
nor when: a range beyond it is done while an older one is still out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shuffler.lease import Progress

Range = tuple[int, int]
"""Offsets [start, end)."""


@dataclass(frozen=True, slots=True)
class Completed:
    """Ranges that were completed after `since_s` and by `until_s`, in elapsed seconds."""

    ranges: tuple[tuple[int, int, int], ...]
    """(partition, start, end)."""
    since_s: float
    until_s: float

    @property
    def at_s(self) -> float:
        """When, at best guess: half a tick off at most."""
        return (self.since_s + self.until_s) / 2


class CompletedLeases:
    """Compares each progress with the one before.

    >>> book = CompletedLeases()
    >>> def seen(watermark, *beyond):
    ...     return Progress({0: watermark}, {}, 0, 0, 0, 0, epoch=1, beyond={0: beyond} if beyond else {})
    >>> book.take(seen(100), at_s=0.0).ranges
    ()
    >>> book.take(seen(100, (120, 140)), at_s=1.0).ranges
    ((0, 120, 140),)
    >>> book.take(seen(150), at_s=2.0).ranges
    ((0, 100, 120), (0, 140, 150))
    """

    def __init__(self) -> None:
        self._seen: Progress | None = None
        self._seen_at_s = 0.0

    def take(self, progress: Progress, *, at_s: float) -> Completed:
        """What was completed since the look before; nothing after the first, or in a new ledger.

        A partition seen for the first time had not begun to be trained where it stands now.
        """
        before, since_s = self._seen, self._seen_at_s
        self._seen, self._seen_at_s = progress, at_s
        if before is None or before.epoch != progress.epoch:
            return Completed((), at_s, at_s)
        ranges = tuple(
            (partition, start, end)
            for partition, watermark in progress.watermarks.items()
            if (low := before.watermarks.get(partition)) is not None
            for start, end in _without(
                [(low, max(low, watermark)), *progress.beyond.get(partition, ())],
                before.beyond.get(partition, ()),
            )
        )
        return Completed(ranges, since_s, at_s)


def _without(ranges: Sequence[Range], known: Sequence[Range]) -> list[Range]:
    """What of `ranges` is in none of `known`; both in order, neither overlapping itself.

    >>> _without([(0, 10), (12, 20)], [(3, 5), (9, 13)])
    [(0, 3), (5, 9), (13, 20)]
    """
    left: list[Range] = []
    for start, end in ranges:
        at = start
        for low, high in known:
            if high <= at or low >= end:
                continue
            if low > at:
                left.append((at, low))
            at = max(at, high)
        if at < end:
            left.append((at, end))
    return left
