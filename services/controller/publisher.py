"""Tells the world of each tick: events for whoever watches, snapshots for the API of the followers."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable

import structlog

from services.control.errors import StateUnavailable
from services.control.loop import Tick
from services.controller.views.decision import DecisionView
from services.controller.views.view import finite
from services.store.snapshots import SnapshotStore
from services.store.streams import StreamLog

log = structlog.get_logger(__name__)

WAITING_MAX = 1000
"""Ticks that wait to be told; older ones go first. Ticks themselves never wait for this."""
SNAPSHOT_EVERY_S = 2.0

Document = Callable[[str], Awaitable[bytes | None]]


class Publisher:
    """Writes behind the ticks, in a task of its own. A store that is away loses events, not ticks."""

    def __init__(self, events: StreamLog, snapshots: SnapshotStore, document: Document) -> None:
        self._events = events
        self._snapshots = snapshots
        self._document = document
        self._waiting: deque[Tick] = deque(maxlen=WAITING_MAX)
        self._there = asyncio.Event()
        self._before: dict[str, Tick] = {}
        self._snapshot_at_s: dict[str, float] = {}
        self._silent = False

    def told(self, tick: Tick) -> None:
        """Take in one tick. Followers have nothing to tell."""
        if not tick.following:
            self._waiting.append(tick)
            self._there.set()

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._there.wait()
            self._there.clear()
            while self._waiting:
                tick = self._waiting.popleft()
                try:
                    await self._publish(tick)
                except StateUnavailable as error:
                    if not self._silent:
                        log.warning("events_not_told", why=str(error))
                    self._silent = True
                except Exception:  # what nobody foresaw in one job's tick touches no other job
                    log.exception("tick_not_told", job=tick.job)
                else:
                    self._silent = False

    async def _publish(self, tick: Tick) -> None:
        before = self._before.get(tick.job)
        self._before[tick.job] = tick
        for kind, data in events_of(tick, before):
            await self._events.append({"kind": kind, "job": tick.job, "data": json.dumps(data)})
        # Below zero the clock was set back since.
        if not 0 <= tick.at_s - self._snapshot_at_s.get(tick.job, 0.0) < SNAPSHOT_EVERY_S:
            self._snapshot_at_s[tick.job] = tick.at_s
            document = await self._document(tick.job)
            if document is not None:
                await self._snapshots.put(tick.job, document)


def events_of(tick: Tick, before: Tick | None) -> list[tuple[str, dict[str, object]]]:
    """What a tick has to tell: itself, a decision that differs from the last, trouble that began or ended."""
    told: list[tuple[str, dict[str, object]]] = [("tick", _tick(tick))]
    decision, last = tick.decision, before.decision if before else None
    if decision is not None:
        same = last is not None and (last.reason, last.notes) == (decision.reason, decision.notes)
        if decision.resize is not None or not same:
            told.append(("decision", DecisionView.of(decision).model_dump(mode="json")))
    if tick.trouble != (before.trouble if before else ""):
        told.append(("trouble", {"at_s": tick.at_s, "trouble": tick.trouble}))
    return told


def _tick(tick: Tick) -> dict[str, object]:
    told: dict[str, object] = {"at_s": tick.at_s, "degraded": tick.degraded, "trouble": tick.trouble}
    if tick.seen is not None:
        traffic, pool = tick.seen.traffic, tick.seen.pool
        told |= {
            "rate_per_s": finite(traffic.rate_per_s),
            "trained_per_s": finite(traffic.trained_per_s),
            "lag": traffic.lag,
            "lag_s": finite(traffic.lag_s),
            "requested": pool.requested,
            "ready": pool.ready,
        }
        if traffic.late_share is not None:
            told["late_share"] = finite(traffic.late_share)
    if tick.decision is not None:
        told |= {
            "decision": tick.decision.id,
            "planned": tick.decision.planned,
            "reason": tick.decision.reason.value,
            "capacity_per_s": finite(tick.decision.numbers["capacity_ready_per_s"]),
        }
    return told
