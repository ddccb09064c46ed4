"""From polls of offsets to rates, lag and time lag. Pure: time is in the polls.

Whatever cannot be measured keeps its last good value, and the result says so.
A missing answer never reads as zero traffic, and its return never as a burst.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.meter.dating import Doubt
from services.meter.points import Arrival, EndPoints
from services.meter.poll import UNKNOWN, OffsetPoll, Offsets
from services.meter.standing import TrainerStanding, Uncommitted
from services.meter.window import ArrivalWindow

HELD_SHARE_MAX = 0.1
"""A result is as old as its held values once they carry more than this share of the rate."""
FINE_POINTS_S = 600.0
"""Points younger than this are kept even when trained, to date the samples of leases just completed."""


@dataclass(frozen=True, slots=True)
class Gauged:
    """What one poll came to. Arrays are indexed by partition; times are elapsed seconds."""

    as_of_s: float
    """The time of the oldest number in here that matters."""
    rates: NDArray[np.float64]
    """Offsets a second; NaN for a partition that was never measured twice."""
    trained_per_s: float
    lags: Offsets
    lag_s: float
    lost: int
    arrived: float
    """Offsets since the poll before; partitions that did not answer are taken at their last rate."""
    since_s: float
    """When that was; the same as `polled_at_s` for the first poll."""
    polled_at_s: float
    notes: tuple[str, ...]
    """What could not be measured."""


class TopicGauge:
    """Remembers the polls of one topic. Call `take` with each, in order of time."""

    def __init__(
        self, *, window_s: float = 10.0, gap_s: float = 30.0, uncommitted: Uncommitted = "earliest"
    ) -> None:
        self.points = EndPoints()
        self.standing = TrainerStanding(window_s=window_s, uncommitted=uncommitted)
        self._window_s, self._gap_s = window_s, gap_s
        self._topic_id = ""
        self._polled_at_s: float | None = None
        self._layout_at_s: float | None = None
        self._progress_at_s = -np.inf
        self._last: Gauged | None = None
        self._arrival: Arrival | None = None
        self._begin()

    def _begin(self) -> None:
        self.points.forget()
        self._window = ArrivalWindow(window_s=self._window_s)
        self._ends = self._stable = np.empty(0, dtype=np.int64)
        self._ends_at_s = self._rates = np.empty(0)

    @property
    def ready(self) -> bool:
        """Whether a rate can be told: that takes two polls."""
        return bool(np.isfinite(self._rates).any())

    def take(self, poll: OffsetPoll, progress: Mapping[int, int] | None) -> Gauged:
        """What the poll says in the light of those before; `progress` is None when it is not known."""
        notes = [f"{count} partitions: {kind}" for kind, count in sorted(poll.errors.items())]
        if poll.topic_id and self._topic_id and poll.topic_id != self._topic_id:
            self._begin()
            self.standing.restart(0 if self._last is None else int(self._last.lags.sum()))
        since_s = poll.at_s if self._polled_at_s is None else self._polled_at_s
        self._grow(len(poll.ends), begun_s=self._layout_at_s)
        arrived = self._take_ends(poll, since_s, notes)
        notes += self.standing.take(poll, progress, held_ends=self._ends)
        if progress is not None:
            self._progress_at_s = poll.at_s
        self._topic_id = poll.topic_id or self._topic_id
        self._polled_at_s, self._layout_at_s, self._arrival = poll.at_s, poll.layout_at_s, None
        self._last = self._result(poll.at_s, since_s, arrived, tuple(notes), hold=progress is None)
        return self._last

    def _grow(self, partitions: int, *, begun_s: float | None) -> None:
        """A partition that was not there at the last listing holds only what came since."""
        more = partitions - len(self._ends)
        if more <= 0:
            return
        self._window.grow(partitions, begun_s=begun_s)
        if begun_s is not None and len(self.points) == 0:
            self.points.add(begun_s, np.zeros(partitions, dtype=np.int64))
        self.points.grow(partitions)
        known = 0 if begun_s is not None else UNKNOWN
        self._ends = np.append(self._ends, np.full(more, known, dtype=np.int64))
        self._stable = np.append(self._stable, np.zeros(more, dtype=np.int64))
        self._ends_at_s = np.append(self._ends_at_s, np.full(more, np.nan if begun_s is None else begun_s))
        self._rates = np.append(self._rates, np.full(more, np.nan))

    def _take_ends(self, poll: OffsetPoll, since_s: float, notes: list[str]) -> float:
        """Take in the ends that are known; returns how many offsets arrived since the poll before."""
        at_s, told = poll.at_s, poll.ends != UNKNOWN
        back = told & (poll.ends < self._ends)
        self._window.add(at_s, poll.ends)
        if back.any():
            notes.append(f"{int(back.sum())} partitions: the end moved back")
            self._restart(back)
        held_for_s = at_s - self._ends_at_s
        with np.errstate(invalid="ignore", divide="ignore"):
            per_s = np.where(told & ~back, (poll.ends - self._ends) / held_for_s, self._rates)
        self._redraw_absent(poll, told & (self._ends != UNKNOWN) & (self._ends_at_s < since_s))
        self._ends = np.where(told, poll.ends, self._ends)
        self._ends_at_s = np.where(told, at_s, self._ends_at_s)
        self._stable = np.where(poll.stable != UNKNOWN, np.minimum(poll.stable, self._ends), self._stable)
        self.points.add(at_s, np.maximum(self._ends, 0))
        rates = self._window.rates()
        self._rates = np.where(np.isnan(rates), self._rates, rates)
        unseen = int(np.isnan(self._rates).sum())
        if self.ready and unseen:
            notes.append(f"{unseen} partitions: no rate is known yet")
        return float(np.nansum(np.where(np.isfinite(per_s), per_s, np.nan)) * (at_s - since_s))

    def _restart(self, partitions: NDArray[np.bool_]) -> None:
        """Truncated, or made anew where ids are not told: offsets below no longer mean what they did."""
        self._window.restart(partitions)
        self._ends = np.where(partitions, UNKNOWN, self._ends)
        for partition in np.flatnonzero(partitions):
            self.points.forget(int(partition))

    def _redraw_absent(self, poll: OffsetPoll, back: NDArray[np.bool_]) -> None:
        for partition in np.flatnonzero(back):
            since_s, since = float(self._ends_at_s[partition]), int(self._ends[partition])
            self.points.redraw(int(partition), since_s, since, poll.at_s, int(poll.ends[partition]))

    def _result(
        self, at_s: float, since_s: float, arrived: float, notes: tuple[str, ...], *, hold: bool
    ) -> Gauged:
        lags, lag_s = self._lags(), self.lag_s()
        if hold and self._last is not None:
            lags[: len(self._last.lags)], lag_s = self._last.lags[: len(lags)], self._last.lag_s
        self.points.prune(self.standing.oldest_untrained, before_s=at_s - FINE_POINTS_S)
        return Gauged(
            as_of_s=self._as_of_s(at_s),
            rates=self._rates,
            trained_per_s=self.standing.trained_per_s,
            lags=lags,
            lag_s=lag_s,
            lost=self.standing.lost,
            arrived=arrived,
            since_s=since_s,
            polled_at_s=at_s,
            notes=notes,
        )

    def lag_s(self) -> float:
        """Age of the oldest untrained sample at the last poll; 0 when all are trained."""
        arrival = self._oldest_arrivals()
        if arrival is None or self._polled_at_s is None:
            return 0.0
        return max(0.0, self._polled_at_s - float(arrival.at_s.min()))

    def doubts(self, *, limit: int) -> list[Doubt]:
        """Untrained samples that may be the oldest, and whose arrival falls into a gap. Oldest first."""
        arrival = self._oldest_arrivals()
        if arrival is None or self._polled_at_s is None:
            return []
        oldest_s = float(arrival.before_s.min())  # some sample arrived by then
        wide = (arrival.before_s - arrival.after_s > self._gap_s) & (arrival.after_s < oldest_s)
        behind, offsets = np.flatnonzero(self._lags() > 0), self.standing.oldest_untrained
        found: list[Doubt] = []
        for i in np.flatnonzero(wide)[np.argsort(arrival.after_s[wide], kind="stable")]:
            after_s, before_s = float(arrival.after_s[i]), float(arrival.before_s[i])
            if len(found) < limit and before_s - after_s > 1.5 * self._usual_s(before_s):
                found.append(Doubt(int(behind[i]), int(offsets[behind[i]]), after_s, before_s))
        return found

    def longest_untrained(self, *, limit: int) -> list[tuple[int, int]]:
        """(partition, offset) of the untrained samples that have waited longest, one a partition."""
        arrival = self._oldest_arrivals()
        if arrival is None:
            return []
        behind, offsets = np.flatnonzero(self._lags() > 0), self.standing.oldest_untrained
        oldest = behind[np.argsort(arrival.at_s, kind="stable")[:limit]]
        return [(int(partition), int(offsets[partition])) for partition in oldest]

    def _usual_s(self, at_s: float) -> float:
        """How far apart points of that time are when no poll was missed."""
        return self.points.resolution_s((self._polled_at_s or at_s) - at_s)

    def hint(self, told: Doubt) -> None:
        """Kafka has dated a doubted sample."""
        self.points.hint(told.partition, told.offset, after_s=told.after_s, before_s=told.before_s)
        self._arrival = None

    def _oldest_arrivals(self) -> Arrival | None:
        """When the first untrained sample of every partition with a lag arrived; None when there is none."""
        behind = np.flatnonzero(self._lags() > 0)
        if self._arrival is None and len(behind) > 0:
            self._arrival = self.points.arrival(behind, self.standing.oldest_untrained[behind])
        return self._arrival

    def _lags(self) -> Offsets:
        lags: Offsets = np.maximum(self._stable - self.standing.oldest_untrained, 0)
        return lags

    def _as_of_s(self, at_s: float) -> float:
        """Now, unless the progress or a good part of the rates is held from earlier."""
        held = self._ends_at_s < at_s
        weight = np.nan_to_num(self._rates) + 1e-9  # without traffic, every partition counts alike
        as_of_s = min(at_s, self._progress_at_s)
        if held.any() and weight[held].sum() > HELD_SHARE_MAX * weight.sum():
            as_of_s = min(as_of_s, float(self._ends_at_s[held].min()))
        return as_of_s
