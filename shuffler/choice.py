"""From which partition a worker's next lease comes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shuffler.partition_book import PartitionBook

_SHORTEST: Final = 0.25
"""Of a full lease: what lies in a shorter one would not be worth the jump to it."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a worker asks for."""

    samples: int
    least: int
    """Partitions with less are left to fill."""
    prefer: Sequence[int]
    last: int | None
    """The partition that it read last: reading on costs no jump."""


def choose(
    books: Mapping[int, PartitionBook], wish: Wish, *, patience_s: float, fill_s: float, now_s: float
) -> int | None:
    """Overdue first; else of the preferred partitions; of all while those have nothing to give."""
    unleased = {p: book.unleased() for p, book in books.items() if book.unleased()}
    if not unleased:
        return None
    since_s, oldest = _longest_waiting(books, unleased)
    if since_s <= now_s - patience_s:
        return oldest
    for among in ([p for p in wish.prefer if p in unleased], list(unleased)):
        full = {p: unleased[p] for p in among if unleased[p] >= wish.least}
        if full:
            return _read_on_or_jump(wish.last, full, wish.samples)
        if among:
            since_s, filled = _longest_waiting(books, among)
            if since_s <= now_s - fill_s:
                return filled
    return None


def shared_out(samples: int, least: int, *, waited_s: float, patience_s: float) -> int:
    """How many of `samples` to give from a partition that nobody took from for `waited_s`.

    One that waited beyond its patience is one of many: more partitions have work than there are
    workers, and the longer the leases, the longer each waits for its next. So they become shorter, by
    whole steps of `least`, to end with a full batch as before; down to a quarter, for jumps cost too.

    >>> [shared_out(220, 50, waited_s=waited_s, patience_s=1.0) for waited_s in (1.0, 1.5, 2.0, 9.0)]
    [220, 170, 120, 70]
    """
    if not patience_s < waited_s < float("inf"):
        return samples
    enough = samples * max(patience_s / waited_s, _SHORTEST)
    return samples - least * int((samples - enough) // least)


def _longest_waiting(books: Mapping[int, PartitionBook], partitions: Iterable[int]) -> tuple[float, int]:
    waiting = ((books[p].waiting_since_s, p) for p in partitions)
    return min((since_s, p) for since_s, p in waiting if since_s is not None)


def _read_on_or_jump(last: int | None, unleased: Mapping[int, int], samples: int) -> int:
    """The partition with most to give; the `last` one read, which costs no jump, if it has not far less."""
    most = max(unleased, key=lambda p: (unleased[p], p))
    if last is not None and unleased.get(last, 0) >= min(samples, unleased[most] / 2):
        return last
    return most
