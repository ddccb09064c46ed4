"""A lease: a range of one partition that one worker may train until it expires."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Lease:
    """Offsets [start, end) of `partition`, for `worker` alone until `expires_at_s`.

    `token` is never given twice within an `epoch`: a worker that lost this lease
    and comes back cannot complete what was given to another.
    """

    partition: int
    start: int
    end: int
    worker: str
    token: int
    epoch: int
    expires_at_s: float
    lapses: int = 0
    """How often this range was out before and its worker fell silent."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A lease whose range is trained, and what came of it."""

    lease: Lease
    trained: int
    late: int
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a job stands. The mappings are keyed by partition."""

    watermarks: Mapping[int, int]
    """Everything below is trained."""
    ends: Mapping[int, int]
    """Everything below may be leased."""
    trained: int
    """Samples of completed leases: each offset counts once."""
    late: int
    """Those of them that were older than the SLO when their training ended."""
    repeated: int
    """Samples of leases that were lost and given out again: at most these were trained twice."""
    lost: int
    """Offsets that Kafka deleted before they were trained."""
    epoch: int
    beyond: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Ranges above the watermark that are trained already; only partitions that have some."""
    out: int = 0
    """Offsets that are out on leases now."""
    quarantined: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Ranges [start, end) that were given up: every worker that took them fell silent."""
    topic_id: str = ""
    """Kafka's own name of the topic that the offsets are of; empty when it told none."""
    committed: bool = False
    """Whether the group holds a commit of this ledger: another one in its place is not ours."""


def check_counts(lease: Lease, *, trained: int, late: int, lost: int) -> None:
    """Raise ValueError unless the counts can be those of `lease`.

    Fewer than its offsets may be samples: transactions and compaction leave gaps.
    """
    length = lease.end - lease.start
    if not (0 <= late <= trained and lost >= 0 and trained + lost <= length):
        raise ValueError(f"{trained=}, {late=}, {lost=} cannot be of a lease over {length} offsets")
