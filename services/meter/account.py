"""The books of one topic: polls in; readings, history and figures out. No I/O, no clock.

The date of a poll is `epoch_s`, the wall clock's reading at elapsed second zero:
durations and ages come from elapsed time, which cannot be set back, and only the
dates in readings and history follow the wall clock, wherever it is set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, isinf

import numpy as np

from forecasting.history import TrafficHistory
from services.control.errors import ControlError, TrafficUnavailable
from services.control.types import TrafficReading
from services.meter.dating import Ask, Doubt, settle
from services.meter.figures import MeterFigures, PollCount
from services.meter.gauge import Gauged, TopicGauge
from services.meter.history import RESOLUTIONS, RateHistory, Resolution
from services.meter.lateness import Lateness
from services.meter.poll import UNKNOWN, OffsetPoll
from services.meter.records import RecordsPerOffset
from services.meter.standing import Uncommitted
from shuffler.lease import Progress

Trained = Mapping[int, int] | Progress | ControlError
"""How far each partition is trained, or why that is not known."""

EVENTS_MAX = 16
"""Partitions whose oldest untrained sample is dated by its event time, the longest untrained first."""
DOUBTS_MAX = 64
"""Partitions dated by asking Kafka in one poll; those that may hold the oldest sample come first."""


class TopicAccount:
    """Everything the meter knows of one topic and of who trains it."""

    def __init__(
        self,
        topic: str,
        *,
        step_s: float = 60.0,
        window_s: float = 10.0,
        gap_s: float = 30.0,
        resolutions: Sequence[Resolution] = RESOLUTIONS,
        uncommitted: Uncommitted = "earliest",
    ) -> None:
        self.topic = topic
        self.rates = RateHistory(step_s=step_s, resolutions=resolutions)
        self.records = RecordsPerOffset()
        self._quarantined = 0
        self.lateness = Lateness()
        self.reading: TrafficReading | None = None
        self._gap_s = gap_s
        self._gauge = TopicGauge(window_s=window_s, gap_s=gap_s, uncommitted=uncommitted)
        self._count = PollCount()
        self._gauged: Gauged | None = None
        self._held = 0
        self._event_age_s: float | None = None

    def take(
        self, poll: OffsetPoll, progress: Trained, *, epoch_s: float, fresh_within_s: float | None = None
    ) -> TrafficReading | None:
        """The reading after this poll; None after the first one, which cannot tell a rate.

        With the freshness promised, the samples of leases completed since the last poll are
        counted as late or not.
        """
        if fresh_within_s is not None and isinstance(progress, Progress):
            self.lateness.take(
                progress,
                self._gauge.points,
                at_s=poll.at_s,
                epoch_s=epoch_s,
                fresh_within_s=fresh_within_s,
                records_per_offset=self.records.value,
            )
        gauged = self._gauge.take(poll, self._watermarks(progress))
        if isinstance(progress, ControlError):
            gauged = replace(gauged, notes=(*gauged.notes, str(progress)))
        self._count.answered(poll.took_s, poll.errors)
        self._held = int((poll.ends == UNKNOWN).sum())
        self._record(gauged, epoch_s)
        return self._tell(gauged, epoch_s)

    def fail(self, error: TrafficUnavailable, *, epoch_s: float) -> TrafficReading:
        """The last good reading, and what is wrong. Raises the error when there is none.

        Dated anew: by the date it had, a clock that was set back would make an old reading a young one.
        """
        self._count.went_wrong("unavailable")
        if self.reading is None or self._gauged is None:
            raise error
        self.reading = replace(self.reading, at_s=epoch_s + self._gauged.as_of_s, degraded=str(error))
        return self.reading

    @property
    def doubtful(self) -> bool:
        """Whether the oldest sample may have arrived while the meter was not looking."""
        return bool(self._gauge.doubts(limit=1))

    def date(self, ask: Ask, *, epoch_s: float) -> TrafficReading | None:
        """The reading after asking Kafka when the doubted samples arrived. As slow as `ask` is."""
        doubts = self._gauge.doubts(limit=DOUBTS_MAX)
        if self._gauged is None:
            return None
        settled = settle(doubts, ask, epoch_s=epoch_s)
        for before, after in zip(doubts, settled, strict=True):
            if after.width_s < before.width_s:
                self._gauge.hint(after)
        notes = self._gauged.notes
        if any(isinf(after.after_s) for after in settled):
            notes = (*notes, "the oldest sample came before the meter did: its age is at least this")
        return self._tell(replace(self._gauged, lag_s=self._gauge.lag_s(), notes=notes), epoch_s)

    def date_events(self, ask: Ask, *, now_s: float) -> None:
        """Find out how old the untrained samples are by their own timestamps. As slow as `ask` is.

        Kafka tells the newest timestamp up to an offset, so that one late straggler among fresh samples
        does not show. Nothing is told where the cluster cannot look up by time.
        """
        untrained = self._gauge.longest_untrained(limit=EVENTS_MAX)
        dated = settle([Doubt(p, offset, -inf, now_s) for p, offset in untrained], ask, epoch_s=0.0)
        ages_s = [now_s - (event.after_s + event.before_s) / 2 for event in dated if not isinf(event.after_s)]
        self._event_age_s = max(ages_s, default=None if untrained else 0.0)

    def history(self) -> TrafficHistory:
        """The past arrival rates at the forecasts' step, gaps as NaN."""
        return self.rates.history()

    def figures(self, *, now_s: float) -> MeterFigures:
        """The numbers for metrics."""
        seen = self.reading
        figures = MeterFigures(
            topic=self.topic,
            held_partitions=self._held,
            records_per_offset=self.records.value,
            polls=self._count.polls,
            failed_polls=self._count.failed,
            poll_s=self._count.last_s,
            poll_s_total=self._count.total_s,
            errors=dict(self._count.errors),
            event_age_s=self._event_age_s,
            aged=self.lateness.trained_total,
            late=self.lateness.late_total,
            late_share=self.lateness.share,
        )
        if seen is None:
            return figures
        return replace(
            figures,
            rate_per_s=seen.rate_per_s,
            trained_per_s=seen.trained_per_s,
            lag=seen.lag,
            lag_s=seen.lag_s,
            lost=seen.lost,
            partitions=len(seen.partition_rates),
            staleness_s=max(0.0, now_s - seen.at_s),
        )

    def _watermarks(self, progress: Trained) -> Mapping[int, int] | None:
        if isinstance(progress, ControlError):
            return None
        if not isinstance(progress, Progress):
            return progress
        self._quarantined = sum(
            end - start for ranges in progress.quarantined.values() for start, end in ranges
        )
        self.records.follow(progress.watermarks, trained=progress.trained, lost=progress.lost)
        return progress.watermarks

    def _record(self, gauged: Gauged, epoch_s: float) -> None:
        seconds = gauged.polled_at_s - gauged.since_s
        until_s = epoch_s + gauged.polled_at_s
        if seconds > self._gap_s:
            self.rates.skip_to(until_s)
        elif seconds > 0:
            self.rates.add(until_s - seconds, until_s, gauged.arrived * self.records.value)

    def _tell(self, gauged: Gauged, epoch_s: float) -> TrafficReading | None:
        self._gauged = gauged
        if not self._gauge.ready:
            return None
        scale = self.records.value
        rates = tuple((np.nan_to_num(gauged.rates) * scale).tolist())
        lags = tuple(np.ceil(gauged.lags * scale).astype(np.int64).tolist())
        self.reading = TrafficReading(
            at_s=epoch_s + gauged.as_of_s,
            rate_per_s=sum(rates),
            trained_per_s=gauged.trained_per_s * scale,
            lag=sum(lags),
            lag_s=gauged.lag_s,
            partition_rates=rates,
            partition_lags=lags,
            lost=gauged.lost,
            quarantined=self._quarantined,
            late_share=self.lateness.share,
            degraded="; ".join(gauged.notes),
        )
        return self.reading
