"""How many samples there are to an offset. Pure.

On a plain topic every offset is a sample. A transaction ends with a marker that
takes an offset of its own, an aborted one leaves nothing but offsets, compaction
removes samples and keeps their numbers. What completed leases held against how
many offsets they spanned tells the ratio.
"""

from __future__ import annotations

from collections.abc import Mapping

FORGET_AFTER = 200_000
"""Offsets after which older evidence counts half: a producer may change its ways."""
ENOUGH = 1_000
"""With fewer offsets than this, offsets are taken for samples."""


class RecordsPerOffset:
    """The running ratio, between 0 and 1.

    >>> ratio = RecordsPerOffset()
    >>> ratio.saw(offsets=1100, records=1000)
    >>> round(ratio.value, 3)
    0.909
    """

    def __init__(self) -> None:
        self._offsets = 0.0
        self._records = 0.0
        self._passed: dict[int, int] = {}
        self._totals: tuple[int, int] | None = None

    @property
    def value(self) -> float:
        """Samples to an offset; 1 until there is evidence."""
        if self._offsets < ENOUGH:
            return 1.0
        return min(1.0, self._records / self._offsets)

    def saw(self, *, offsets: int, records: int) -> None:
        """A completed range spanned `offsets` and held `records`."""
        if offsets < 0 or records < 0:
            raise ValueError(f"{offsets} offsets with {records} records cannot be")
        self._offsets += offsets
        self._records += records
        if self._offsets > FORGET_AFTER:
            self._offsets, self._records = self._offsets / 2, self._records / 2

    def follow(self, watermarks: Mapping[int, int], *, trained: int, lost: int) -> None:
        """Learn from a ledger's running totals: what was trained while the watermarks moved.

        Leases still out make a single step inexact, the sum of many steps is right:
        so steps are summed until the watermarks have moved far. Totals that shrank,
        or watermarks that went back, begin a new count.
        """
        moved = 0
        for partition, watermark in watermarks.items():
            step = watermark - self._passed.get(partition, watermark)
            if step < 0:
                self._totals = None
            moved += step
        if self._totals is None or trained < self._totals[0] or lost < self._totals[1]:
            self._passed, self._totals = dict(watermarks), (trained, lost)
            return
        records, deleted = trained - self._totals[0], lost - self._totals[1]
        if moved >= ENOUGH:
            self.saw(offsets=max(0, moved - deleted), records=records)
            self._passed, self._totals = dict(watermarks), (trained, lost)
        for partition in watermarks.keys() - self._passed.keys():
            self._passed[partition] = watermarks[partition]
