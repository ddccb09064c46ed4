"""Growing is immediate; shrinking waits until it has been right for a while."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settling:
    """A wish to shrink: since when, and the largest size wished for since then."""

    since_s: float | None = None
    largest: int = 0


def settle(
    wanted: int, current: int, held: Settling, *, now_s: float, settle_s: float
) -> tuple[int, Settling]:
    """The size to act on, and the wish to remember.

    The pool shrinks to the largest size wished for while it waited, so a
    short dip cannot take workers away that the next second needs.

    >>> settle(2, 5, Settling(), now_s=0.0, settle_s=60.0)
    (5, Settling(since_s=0.0, largest=2))
    >>> settle(1, 5, Settling(since_s=0.0, largest=2), now_s=60.0, settle_s=60.0)
    (2, Settling(since_s=None, largest=0))
    """
    if wanted >= current:
        return wanted, Settling()
    since_s = now_s if held.since_s is None else held.since_s
    largest = max(wanted, held.largest)
    if now_s - since_s >= settle_s:
        return min(largest, current), Settling()
    return current, Settling(since_s, largest)
