"""One look at a topic's offsets, and the role of whoever looks. No Kafka client here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.int64]

UNKNOWN = -1
"""An offset that could not be asked for."""


@dataclass(frozen=True, slots=True)
class OffsetPoll:
    """Offsets of every partition, asked for around `at_s`. UNKNOWN where no answer came.

    Times are elapsed seconds, which no operator can set back; they have no date.
    """

    at_s: float
    ends: Offsets
    """High watermarks: what has been written. Rates come from these."""
    stable: Offsets
    """Last stable offsets: what may be read. Lag runs up to these."""
    starts: Offsets
    """Log starts: what lies before was deleted. May be some seconds older than the ends."""
    topic_id: str = ""
    """Another id is another topic, whatever its name. Empty where the cluster does not tell."""
    layout_at_s: float = 0.0
    """When the list of partitions was last asked for."""
    took_s: float = 0.0
    errors: Mapping[str, int] = field(default_factory=dict)
    """How many partitions could not be asked, by kind of error."""


class OffsetSource(Protocol):
    """Whoever can ask Kafka about one topic. Blocking: called by one thread at a time."""

    def poll(self) -> OffsetPoll:
        """Ask for all offsets now.

        Raises TrafficUnavailable when nothing at all could be learned.
        """
        ...

    def commits(self) -> Mapping[int, int]:
        """What the group has committed; a partition without a commit is left out.

        Raises TrafficUnavailable when the group's coordinator does not answer.
        """
        ...

    def at_times(self, wanted: Sequence[tuple[int, float]]) -> Sequence[int]:
        """For each (partition, epoch seconds) the first offset from then on.

        UNKNOWN where the cluster cannot tell, the end where nothing came since.
        Each partition at most once in a call: Kafka answers the second one with the first's offset.
        """
        ...

    def close(self) -> None: ...
