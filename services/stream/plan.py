"""What one worker's stream is to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from services.settings.job import JobSettings
from services.settings.pool import HEARD_WITHIN_S
from shuffler.ledger import Terms


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """How a worker reads one topic."""

    topic: str
    group: str
    start: Literal["committed", "earliest", "latest"] | datetime = "committed"
    batch: int = 128
    fresh_within_s: float = 60.0
    lease_s: float = 2.0
    """Work taken at a time, in seconds of this worker."""
    terms: Terms = field(default_factory=Terms)
    linger_s: float = 0.2
    """A batch that is not full is trained after this long. Full ones cost the device less."""
    drain_s: float = 30.0
    """On stopping, batches that were handed out may take this long to be done."""
    held_s: float = 38.0
    """On stopping, no lease is kept alive beyond this: whoever waits longer may kill us, frozen or not."""
    refresh_s: float = 0.2
    """How often at most this worker asks Kafka for the end offsets."""
    group_protocol: Literal["cooperative-sticky", "consumer"] = "cooperative-sticky"
    """How members of Kafka's own group agree, where that is used."""
    commit_s: float = 1.0
    """How often at most the workers together commit the watermark, and look how far partitions reach."""

    @property
    def read_ahead(self) -> int:
        """Records to keep fetched: the next batch is there when it is asked for, and a jump to another
        range throws little away."""
        return max(1000, 2 * self.batch)

    @classmethod
    def of(cls, job: str, settings: JobSettings, *, drain_s: float | None = None) -> StreamPlan:
        """The plan that the job's settings ask for, with `drain_s` to leave where that is known better.

        A lease is no longer than three fifths of the freshness promised: what lies behind it in the
        partition may wait for its end, and is then to be read and trained. A partition may wait for a
        reader no longer than half of that: less patience would give out partitions before they have
        filled, and cost more jumps than a pool that is busy has time for.
        """
        fresh_within_s = settings.slo.fresh_within_s
        longest_s = 0.6 * fresh_within_s
        linger_s = min(0.2, longest_s / 5)
        held_s = (settings.pool.drain_s if drain_s is None else drain_s) - HEARD_WITHIN_S
        return cls(
            topic=settings.topic,
            group=settings.group_of(job),
            start=settings.shuffle.start,
            group_protocol=settings.shuffle.group_protocol,
            batch=settings.worker.batch,
            fresh_within_s=fresh_within_s,
            lease_s=min(settings.shuffle.lease_s, longest_s),
            terms=Terms(
                ttl_s=settings.shuffle.lease_ttl_s,
                lapses_max=settings.shuffle.lapses_max,
                patience_s=min(10.0, longest_s / 2),
                fill_s=linger_s,
            ),
            linger_s=linger_s,
            commit_s=max(0.1, min(1.0, longest_s / 2)),
            # Earlier than the leases end, so that they are given back and there is time to commit.
            drain_s=held_s * 0.8,
            held_s=held_s,
        )
