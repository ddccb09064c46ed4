"""The meter's numbers about itself, for whoever exports metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MeterFigures:
    """All counters run since the meter was opened; gauges are as of the last poll."""

    topic: str
    rate_per_s: float = 0.0
    trained_per_s: float = 0.0
    lag: int = 0
    lag_s: float = 0.0
    lost: int = 0
    partitions: int = 0
    held_partitions: int = 0
    """Partitions that did not answer the last poll and keep their last values."""
    records_per_offset: float = 1.0
    polls: int = 0
    failed_polls: int = 0
    poll_s: float = 0.0
    """How long the last poll took."""
    poll_s_total: float = 0.0
    """How long all polls took."""
    event_age_s: float | None = None
    """Age of the longest untrained sample by its own timestamp; None where it cannot be told."""
    aged: float = 0.0
    """Samples of completed leases whose age was told."""
    late: float = 0.0
    """Those of them that were late."""
    late_share: float | None = None
    """The share of late ones over the last week; None before any was counted."""
    backfilled: float = 1.0
    """How much of the past that was asked for has been rebuilt, as a share."""
    staleness_s: float = 0.0
    """Age of the last good reading."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Polls that met an error, by kind."""


@dataclass(slots=True)
class PollCount:
    """Counts polls and what went wrong in them."""

    polls: int = 0
    failed: int = 0
    last_s: float = 0.0
    total_s: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)

    def answered(self, took_s: float, errors: Mapping[str, int]) -> None:
        """A poll that told something; `errors` by kind where it could not tell all."""
        self.polls += 1
        self.last_s = took_s
        self.total_s += took_s
        self.errors.update(errors.keys())

    def went_wrong(self, kind: str) -> None:
        """A poll that told nothing."""
        self.polls += 1
        self.failed += 1
        self.errors[kind] += 1
