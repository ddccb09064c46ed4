"""The past of a topic, asked of its own cluster at a pace that leaves the cluster its breath."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from services.control.errors import TrafficUnavailable
from services.meter.backfill import BackfillPiece, BackfillTerms, rebuild
from services.meter.kafka_offsets import KafkaOffsets


def past_of_topic(
    client: Mapping[str, Any],
    topic: str,
    *,
    now_s: float,
    terms: BackfillTerms,
    known: Callable[[float], bool] = lambda _: False,
    timeout_s: float = 10.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[BackfillPiece]:
    """Pieces of the past, newest first, over a connection of its own. Blocking.

    Nothing where the cluster cannot look up offsets by time, as the embedded one
    cannot. Raises TrafficUnavailable.
    """
    offsets = KafkaOffsets(client, timeout_s=timeout_s)
    try:
        polled = offsets.poll([topic])[topic]
        if isinstance(polled, TrafficUnavailable):
            raise polled
        if offsets.layouts.embedded:
            return
        pace = _Pace(terms.lookups_per_s, sleep)

        def ask(wanted: Sequence[tuple[int, float]]) -> Sequence[int]:
            pace.spend(len(wanted))
            return offsets.at_times(topic, wanted)

        yield from rebuild(ask, polled.starts, polled.ends, now_s=now_s, terms=terms, known=known)
    finally:
        offsets.close()


class _Pace:
    """Holds back whoever asks more than `per_s` in the long run."""

    def __init__(self, per_s: float, sleep: Callable[[float], None]) -> None:
        self._per_s = per_s
        self._sleep = sleep
        self._free_at_s = time.monotonic()

    def spend(self, lookups: int) -> None:
        now_s = time.monotonic()
        if self._free_at_s > now_s:
            self._sleep(self._free_at_s - now_s)
        self._free_at_s = max(self._free_at_s, now_s) + lookups / self._per_s
