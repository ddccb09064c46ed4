"""Rebuilds a meter's past in the background, while it already measures the present."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import structlog

from forecasting.history import TrafficHistory
from services.control.errors import TrafficUnavailable
from services.meter.backfill import BackfillPiece, BackfillTerms
from services.meter.kafka_past import past_of_topic

log = structlog.get_logger()


class Remembers(Protocol):
    """Whoever takes over a past that comes in pieces."""

    def seed(self, past: TrafficHistory) -> None: ...

    def history(self) -> TrafficHistory: ...


class PastRecall:
    """Asks the cluster for the past, once. What is known already, from the archive say, is not asked for."""

    def __init__(
        self,
        client: Mapping[str, Any],
        topic: str,
        meter: Remembers,
        terms: BackfillTerms,
        *,
        turns: asyncio.Semaphore | None = None,
    ) -> None:
        """`turns` is shared by the recalls of a fleet, so that they do not all ask at once."""
        self._client, self._topic, self._meter, self._terms = client, topic, meter, terms
        self._turns = turns or asyncio.Semaphore(1)
        self._task: asyncio.Task[None] | None = None
        self._asking = False
        self._stop = threading.Event()
        self._lookups = 0
        self.share = 0.0
        """How much of the past has been looked at."""

    def begin(self, *, now_s: float) -> None:
        """Start, unless it was started before."""
        if self._task is None:
            self._task = asyncio.create_task(self._recall(now_s), name=f"backfill-{self._topic}")

    async def close(self) -> None:
        """Give up what is not done; the next start goes on from there."""
        self._stop.set()
        if self._task is None:
            return
        if not self._asking:  # still in the queue, behind what may take minutes
            self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    async def _recall(self, now_s: float) -> None:
        async with self._turns:
            self._asking = True
            await self._ask_all(now_s)

    async def _ask_all(self, now_s: float) -> None:
        loop, known = asyncio.get_running_loop(), known_bins(self._meter.history())

        def ask() -> None:
            """In a thread; the pieces are taken over where the meter lives."""
            pieces = past_of_topic(
                self._client, self._topic, now_s=now_s, terms=self._terms, known=known, sleep=self._sleep
            )
            for piece in pieces:
                loop.call_soon_threadsafe(self._take, piece)
                if self._stop.is_set():
                    return

        try:
            await asyncio.to_thread(ask)
        except TrafficUnavailable as error:
            log.warning("history_not_backfilled", topic=self._topic, trouble=str(error), share=self.share)
            return
        await asyncio.sleep(0)  # the last piece is taken over before its end is told
        if not self._stop.is_set():
            self.share = 1.0
            hours = round(self._meter.history().span_s / 3600, 1)
            log.info("history_backfilled", topic=self._topic, hours=hours, lookups=self._lookups)

    def _take(self, piece: BackfillPiece) -> None:
        self._meter.seed(piece.history)
        self.share, self._lookups = piece.done / piece.total, piece.lookups

    def _sleep(self, seconds: float) -> None:
        self._stop.wait(seconds)


def known_bins(history: TrafficHistory) -> Callable[[float], bool]:
    """Whether the history has a rate at an instant.

    >>> known = known_bins(TrafficHistory(start_s=0.0, step_s=60.0, rates=np.array([5.0, np.nan])))
    >>> known(30.0), known(90.0), known(150.0)
    (True, False, False)
    """
    measured = ~np.isnan(history.rates)

    def known(at_s: float) -> bool:
        place = int((at_s - history.start_s) // history.step_s)
        return 0 <= place < len(measured) and bool(measured[place])

    return known
