"""What workers say of themselves, on its way to the controller, and the assignment on its way back.

Workers are synchronous and write and read with a client of their own; the controller reads with
the event loop's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, cast

import structlog
from redis.asyncio import Redis

from services.control.ports import Clock
from services.control.types import WorkerReport
from services.settings.root import RedisSettings
from services.store import codec
from services.store.connect import asking, connect_sync, translating
from services.store.errors import StateCorrupt
from services.store.keys import Keys
from shuffler.assignment import Assignment

log = structlog.get_logger(__name__)

REPORT_TTL_S = 15.0
"""A worker silent for this long counts as gone."""
LEADERLESS_S = 60.0
"""Without a controller for this long, whoever stands by trains: nobody is left to name it."""
_LOOK_FOR_LEADER_S = 1.0


class RedisReports:
    """The Telemetry of one job, from Redis."""

    def __init__(self, client: Redis, keys: Keys, job: str) -> None:
        self._client = client
        self._keys = keys
        self._job = job

    async def reports(self) -> tuple[WorkerReport, ...]:
        """The latest report of every live worker, by name. Raises StateUnavailable.

        One that cannot be read is left out, and the log says so: a broken worker must not stop the job.
        """
        index = self._keys.workers(self._job)
        async with asking(self._client, f"SMEMBERS {index}"):
            members = cast(set[bytes], await self._client.smembers(index))
        if not members:
            return ()
        workers = sorted(member.decode(errors="replace") for member in members)
        keys = [self._keys.report(self._job, worker) for worker in workers]
        async with asking(self._client, f"MGET of {len(keys)} reports"):
            written = await self._client.mget(keys)
        await self._forget([worker for worker, raw in zip(workers, written, strict=True) if raw is None])
        found = (_read(raw, key) for raw, key in zip(written, keys, strict=True) if raw is not None)
        return tuple(report for report in found if report is not None)

    async def _forget(self, gone: list[str]) -> None:
        """Take workers whose report has expired off the index. One that writes at this very moment
        is put back by its next report."""
        if gone:
            index = self._keys.workers(self._job)
            async with asking(self._client, f"SREM {index}"):
                await self._client.srem(index, *gone)


def _read(raw: bytes | str, key: str) -> WorkerReport | None:
    try:
        return codec.decode_report(raw, key=key)
    except StateCorrupt as error:
        log.warning("worker_report_unreadable", why=str(error))
        return None


class ReportWriter:
    """A worker's side: says how it is doing, until it leaves."""

    def __init__(
        self,
        url: str,
        job: str,
        *,
        prefix: str = "penstock",
        timeout_s: float = 2.0,
        ttl_s: float = REPORT_TTL_S,
    ) -> None:
        self._client = connect_sync(RedisSettings(url=url, timeout_s=timeout_s, prefix=prefix))
        self._keys = Keys(prefix)
        self._job = job
        self._ttl_ms = max(1, round(ttl_s * 1000))
        self._worker: str | None = None

    def write(self, report: WorkerReport) -> None:
        """Replace this worker's report; it expires by itself unless the next one comes. Raises
        StateUnavailable: a worker goes on training without being heard."""
        self._worker = report.worker
        index = self._keys.workers(self._job)
        key = self._keys.report(self._job, report.worker)
        with translating(self._client, f"SET {key}"), self._client.pipeline(transaction=True) as steps:
            steps.set(key, codec.encode_report(report), px=self._ttl_ms)
            steps.sadd(index, report.worker)
            # The index goes when its last worker has; never before the longest-lived report.
            steps.pexpire(index, self._ttl_ms * 2)
            steps.execute()

    def forget(self) -> None:
        """Take back what was written, on leaving. Does nothing when nothing was. Raises StateUnavailable."""
        if self._worker is None:
            return
        key = self._keys.report(self._job, self._worker)
        with translating(self._client, f"DEL {key}"), self._client.pipeline(transaction=True) as steps:
            steps.delete(key)
            steps.srem(self._keys.workers(self._job), self._worker)
            steps.execute()
        self._worker = None

    def close(self) -> None:
        """Close the connection. What was written expires by itself."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AssignmentReader:
    """A worker's view of who should read what, as last committed."""

    def __init__(
        self,
        url: str,
        job: str,
        *,
        prefix: str = "penstock",
        timeout_s: float = 2.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = connect_sync(RedisSettings(url=url, timeout_s=timeout_s, prefix=prefix))
        self._key = Keys(prefix).assignment(job)
        self._leader = Keys(prefix).leader()
        self._now_s = now_s
        self._raw: bytes | str | None = None
        self._assignment = Assignment()
        self._led_at_s = self._looked_at_s = now_s()

    def partitions_of(self, worker: str) -> tuple[int, ...]:
        """The partitions that `worker` should read first; none before the first commit.

        Raises StateUnavailable, StateCorrupt.
        """
        return self._latest().partitions_of(worker)

    def stands_by(self, worker: str) -> bool:
        """Whether `worker` is to take no lease for now; False before the first commit.

        False too when no controller has led for LEADERLESS_S: workers that were named may have died
        since, and those that came in their place would wait for ever. Raises StateUnavailable,
        StateCorrupt.
        """
        return self._latest().stands_by(worker) and not self._leaderless()

    def _leaderless(self) -> bool:
        """Whether nobody has led for long, as far as was looked: once a second is enough."""
        now_s = self._now_s()
        if now_s - self._looked_at_s >= _LOOK_FOR_LEADER_S:
            self._looked_at_s = now_s
            with translating(self._client, f"EXISTS {self._leader}"):
                led = self._client.exists(self._leader)
            if led:
                self._led_at_s = now_s
        return now_s - self._led_at_s >= LEADERLESS_S

    def _latest(self) -> Assignment:
        with translating(self._client, f"GET {self._key}"):
            raw = self._client.get(self._key)
        if raw != self._raw:  # it changes rarely and may be long: parse it once
            self._assignment = Assignment() if raw is None else codec.decode_assignment(raw, key=self._key)
            self._raw = raw
        return self._assignment

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class MemoryReports:
    """The Telemetry of one job within one process, on the clock that it is given."""

    def __init__(self, clock: Clock, *, ttl_s: float = REPORT_TTL_S) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._written: dict[str, tuple[float, WorkerReport]] = {}

    def write(self, report: WorkerReport) -> None:
        """Replace the worker's report; it expires by itself unless the next one comes."""
        self._written[report.worker] = (self._clock.now_s() + self._ttl_s, report)

    def forget(self, worker: str) -> None:
        """Take back what `worker` wrote, on its leaving."""
        self._written.pop(worker, None)

    async def reports(self) -> tuple[WorkerReport, ...]:
        """The latest report of every live worker, by name."""
        now_s = self._clock.now_s()
        self._written = {name: kept for name, kept in self._written.items() if kept[0] > now_s}
        return tuple(self._written[name][1] for name in sorted(self._written))
