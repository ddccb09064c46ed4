"""Where the trainer stands: positions, samples trained, samples lost. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Literal

import numpy as np

from services.meter.poll import UNKNOWN, OffsetPoll, Offsets

Uncommitted = Literal["earliest", "latest", "end"]


class TrainerStanding:
    """Positions of one group, poll by poll.

    A group that never committed in a partition stands where it would start:
    at the log's start, or at the end that was first seen; or always at the end,
    when nobody is to train the topic and it has no lag.
    """

    def __init__(self, *, window_s: float, uncommitted: Uncommitted = "earliest") -> None:
        self._window_s = window_s
        self._uncommitted = uncommitted
        self._trained: deque[tuple[float, int]] = deque()
        """(time, offsets passed so far)."""
        self.lost = 0
        self.position = self.starts = self._lost_upto = self._begin = np.empty(0, dtype=np.int64)
        self._beyond = np.empty(0, dtype=np.bool_)

    @property
    def oldest_untrained(self) -> Offsets:
        """The first offset of every partition that is there and not trained."""
        return np.maximum(self.position, self.starts)

    @property
    def trained_per_s(self) -> float:
        """Offsets passed a second, over the window."""
        if len(self._trained) < 2:
            return 0.0
        (since_s, since), (now_s, now) = self._trained[0], self._trained[-1]
        return (now - since) / (now_s - since_s)

    def restart(self, untrained: int) -> None:
        """The topic was deleted with these samples in it, and made anew."""
        self.lost += untrained
        self.position = self.starts = self._lost_upto = self._begin = np.empty(0, dtype=np.int64)
        self._beyond = np.empty(0, dtype=np.bool_)

    def take(self, poll: OffsetPoll, progress: Mapping[int, int] | None, *, held_ends: Offsets) -> list[str]:
        """Update from a poll; `progress` is None when it could not be read. Returns what was odd."""
        self._grow(len(held_ends))
        before, deleted_before = self.oldest_untrained, self.starts
        self.starts = np.where(poll.starts != UNKNOWN, poll.starts, self.starts)
        first_seen = poll.starts if self._uncommitted == "earliest" else held_ends
        again = self._uncommitted == "end"
        self._begin = np.where((self._begin == UNKNOWN) | again, first_seen, self._begin)
        if progress is None:
            return []
        said = _by_partition(progress, len(held_ends))
        beyond = (poll.ends != UNKNOWN) & (said > poll.ends)
        # Once may be a matter of who was asked first; twice is another topic's progress.
        odd = beyond & self._beyond
        self._beyond = beyond
        told = (said != UNKNOWN) & ~odd
        self.position = np.where(told, said, np.maximum(self._begin, 0))
        # Deleted a poll ago and not passed by now: then nobody can have trained it in between.
        self._count_lost(
            deleted_before, np.where(told | (self._begin != UNKNOWN), self.position, deleted_before)
        )
        passed = np.maximum(self.position - np.maximum(before, self.starts), 0)
        self._count_trained(poll.at_s, int(passed[told].sum()))
        return [f"progress lies beyond the end of {int(odd.sum())} partitions"] if odd.any() else []

    def _grow(self, partitions: int) -> None:
        more = partitions - len(self.position)
        if more <= 0:
            return
        zeros, unknown = np.zeros(more, dtype=np.int64), np.full(more, UNKNOWN, dtype=np.int64)
        self.starts, self.position = np.append(self.starts, zeros), np.append(self.position, zeros)
        self._lost_upto, self._begin = np.append(self._lost_upto, zeros), np.append(self._begin, unknown)
        self._beyond = np.append(self._beyond, np.zeros(more, dtype=np.bool_))

    def _count_lost(self, deleted_upto: Offsets, reached: Offsets) -> None:
        lost = np.maximum(deleted_upto - np.maximum(reached, self._lost_upto), 0)
        self.lost += int(lost.sum())
        self._lost_upto = np.where(lost > 0, deleted_upto, self._lost_upto)

    def _count_trained(self, at_s: float, passed: int) -> None:
        # What was passed before the first poll was not passed in the window.
        total = self._trained[-1][1] + passed if self._trained else 0
        self._trained.append((at_s, total))
        while len(self._trained) > 2 and self._trained[1][0] <= at_s - self._window_s:
            self._trained.popleft()


def _by_partition(progress: Mapping[int, int], partitions: int) -> Offsets:
    """As an array; UNKNOWN for a partition that was left out. Partitions not listed yet are ignored."""
    said = np.full(partitions, UNKNOWN, dtype=np.int64)
    where = np.fromiter(progress.keys(), dtype=np.int64, count=len(progress))
    offsets = np.fromiter(progress.values(), dtype=np.int64, count=len(progress))
    listed = (where >= 0) & (where < partitions)
    said[where[listed]] = offsets[listed]
    return said
