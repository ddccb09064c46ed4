"""How far traffic ever rose above what was forecast: no future rises further."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from estimator.planner.features import Floats

GROUPS, TOP_SHARE = 20, 0.05
"""Levels at which the highest rise is kept, and the share of all rows that the highest one stands for."""
MORE = 1.5
"""What is to be feared over what was ever seen, in logarithms."""


@dataclass(frozen=True, slots=True, eq=False)
class Rises:
    """By level: how far traffic at it, or at a higher one, ever rose above what was forecast.

    Errors are kept in units of their volatility, and a night's is next to nothing: in those units a
    morning that begins a minute early is a catastrophe without end, which no noon has ever seen.
    """

    levels: Floats
    """In order; the last group has all rows from its level on."""
    highest: Floats
    """From each level on: never more than from the one before."""

    def above(self, level: float) -> float:
        """The most that is to be feared at this level."""
        at = int(np.searchsorted(self.levels, level, side="right")) - 1
        return MORE * float(self.highest[max(at, 0)])

    @classmethod
    def seen(cls, levels: Floats, errors: Floats) -> Rises:
        """From rows of (level, errors by lead)."""
        order = np.argsort(levels, kind="stable")
        worst = np.maximum.accumulate(errors.max(axis=1)[order][::-1])[::-1]
        first = (np.linspace(0.0, 1.0 - TOP_SHARE, GROUPS) * len(order)).astype(np.int64)
        return cls(levels[order][first], np.maximum(worst[first], 0.0))
