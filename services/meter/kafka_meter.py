"""The meter of one topic: asks Kafka, keeps the books, answers the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

import structlog

from forecasting.history import TrafficHistory
from services.clock import elapsed_s
from services.control.errors import StateUnavailable, TrafficUnavailable
from services.control.ports import Clock
from services.control.types import TrafficReading
from services.meter.account import TopicAccount, Trained
from services.meter.archive import HistoryArchive, HistoryKeeper
from services.meter.backfill import BackfillTerms
from services.meter.figures import MeterFigures
from services.meter.history import RESOLUTIONS, Resolution
from services.meter.recall import PastRecall
from services.meter.sources import MeterSource, ThreadedSource
from services.meter.standing import Uncommitted
from services.meter.topic_offsets import TopicOffsets
from shuffler.lease import Progress

log = structlog.get_logger()

ProgressSource = Callable[[], Awaitable[Mapping[int, int] | Progress]]
"""How far each partition is trained, when not the group's commits but the ledger knows.

The ledger's whole Progress also tells how many samples there are to an offset.
"""

EVENTS_EVERY_S = 30.0
"""How often the untrained samples are dated by their own timestamps: some twenty calls each time."""
FIRST_WINDOW_S = 1.0
"""The first rate is measured over this long: a single look at the offsets tells none."""


class KafkaMeter:
    """Measures one topic when read. One poll never overlaps the next.

    A poll that fails gives the last good reading, `degraded` and with its own
    time: on doubt traffic is what it was, never zero.
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        *,
        topic: str,
        group: str,
        clock: Clock,
        step_s: float = 60.0,
        window_s: float = 10.0,
        gap_s: float = 30.0,
        timeout_s: float = 5.0,
        resolutions: Sequence[Resolution] = RESOLUTIONS,
        uncommitted: Uncommitted = "earliest",
        progress: ProgressSource | None = None,
        fresh_within_s: Callable[[], float] | None = None,
        archive: HistoryArchive | None = None,
        late_archives: tuple[HistoryArchive, HistoryArchive] | None = None,
        backfill: BackfillTerms | None = None,
        backfill_turns: asyncio.Semaphore | None = None,
        source: MeterSource | None = None,
        elapsed_s: Callable[[], float] = elapsed_s,
    ) -> None:
        """`progress` replaces the commits, `archive` keeps the history, `source` shares the polls of a fleet.

        `fresh_within_s` tells the freshness promised as it is now: completed leases are counted as late
        by it, and `late_archives` keep the counts (of all, of the late ones). Traffic not seen for `gap_s`
        is a gap in the history. `backfill` rebuilds the past from the cluster, in the background, once
        the first reading has succeeded and `backfill_turns` has room.
        """
        self._topic = topic
        self._clock = clock
        self._elapsed_s = elapsed_s
        self._progress = progress
        self._source: MeterSource = source or ThreadedSource(
            TopicOffsets(client, topic=topic, group=group, timeout_s=timeout_s, elapsed_s=elapsed_s),
            name=topic,
        )
        self.account = TopicAccount(
            topic,
            step_s=step_s,
            window_s=window_s,
            gap_s=gap_s,
            resolutions=resolutions,
            uncommitted=uncommitted,
        )
        self._keepers: list[HistoryKeeper] = []
        if archive is not None:
            self._keepers.append(HistoryKeeper(self.account.rates, archive))
        if late_archives is not None:
            books = (self.account.lateness.trained, self.account.lateness.late)
            self._keepers += [
                HistoryKeeper(book, kept) for book, kept in zip(books, late_archives, strict=True)
            ]
        self._recall = (
            None if backfill is None else PastRecall(client, topic, self, backfill, turns=backfill_turns)
        )
        self._fresh_within_s = fresh_within_s
        self._events_due_s = float("-inf")
        self._trouble = ""
        self._one_at_a_time = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let a poll under way end, then let go of the cluster."""
        if self._recall is not None:
            await self._recall.close()
        await self._source.close()

    def seed(self, past: TrafficHistory) -> None:
        """Take over a past known from elsewhere; what was measured here stays."""
        self.account.rates.seed(past)
        for keeper in self._keepers:
            keeper.forget_saved()

    def history(self) -> TrafficHistory:
        """The past arrival rates at `step_s`, gaps as NaN."""
        return self.account.history()

    def figures(self) -> MeterFigures:
        """The meter's own numbers, for metrics."""
        figures = self.account.figures(now_s=self._clock.now_s())
        return figures if self._recall is None else replace(figures, backfilled=self._recall.share)

    async def read(self) -> TrafficReading:
        """Measure now, or tell the last good reading with what is wrong.

        Raises TrafficUnavailable when nothing was ever measured. The first
        call takes a second longer, to see the offsets move.
        """
        async with self._one_at_a_time:
            for keeper in self._keepers:
                await keeper.restore(now_s=self._clock.now_s())
            try:
                reading = await self._measure() or await self._measure_again()
                if not reading.degraded:
                    await self._date_events()
            except TrafficUnavailable as error:
                reading = self.account.fail(error, epoch_s=self._epoch_s())
            self._tell(reading.degraded)
            if self._recall is not None:
                self._recall.begin(now_s=self._clock.now_s())
            for keeper in self._keepers:
                await keeper.save(now_s=self._clock.now_s())
            return reading

    async def _measure_again(self) -> TrafficReading:
        """A first look at the offsets tells no rate: look again after a while."""
        await self._clock.sleep_until(self._clock.now_s() + FIRST_WINDOW_S)
        reading = await self._measure()
        if reading is None:
            raise TrafficUnavailable(f"no partition of topic {self._topic!r} answered twice")
        return reading

    async def _measure(self) -> TrafficReading | None:
        progress = await self._read_progress()
        poll = await self._source.poll()
        epoch_s = self._epoch_s()
        fresh_within_s = None if self._fresh_within_s is None else self._fresh_within_s()
        reading = self.account.take(poll, progress, epoch_s=epoch_s, fresh_within_s=fresh_within_s)
        if not self.account.doubtful:
            return reading
        return await self._source.with_times(partial(self.account.date, epoch_s=epoch_s))

    async def _date_events(self) -> None:
        if self._elapsed_s() >= self._events_due_s:
            self._events_due_s = self._elapsed_s() + EVENTS_EVERY_S
            await self._source.with_times(partial(self.account.date_events, now_s=self._clock.now_s()))

    def _epoch_s(self) -> float:
        """The wall clock's date of elapsed second zero, as it is set now."""
        return self._clock.now_s() - self._elapsed_s()

    async def _read_progress(self) -> Trained:
        """Asked for before the ends: a sample may then count as lag for a moment, but none is missed.

        Without any progress there is no lag to tell, and the first reading fails; later ones hold the last.
        """
        try:
            if self._progress is None:
                return await self._source.commits()
            return await self._progress()
        except (StateUnavailable, TrafficUnavailable) as error:
            if self.account.reading is None:
                raise TrafficUnavailable(f"topic {self._topic!r} cannot be measured: {error}") from error
            return error

    def _tell(self, trouble: str) -> None:
        """Log what is wrong when it begins, changes or ends."""
        if trouble == self._trouble:
            return
        if trouble:
            log.warning("meter_degraded", topic=self._topic, trouble=trouble)
        else:
            log.info("meter_recovered", topic=self._topic)
        self._trouble = trouble
