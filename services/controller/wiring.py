"""The adapters of a live controller: Kafka, Redis and worker pools behind the ports."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from forecasting.history import TrafficHistory
from services.clock import SystemClock
from services.control.errors import StateUnavailable
from services.control.loop import Ports
from services.control.ports import WorkerPool
from services.control.types import Shuffle
from services.controller.metering import Metering
from services.controller.pools import open_pool
from services.controller.views.forecast import ModelScore, TrainingView
from services.forecaster.fleets import ForecastFleets
from services.meter.figures import MeterFigures
from services.settings import JobSettings, Settings
from services.settings.pool import PoolSettings
from services.store.connect import asking, connect, connect_sync
from services.store.jobs import RedisJobs
from services.store.keys import Keys
from services.store.leader import RedisLeadership
from services.store.redis_state import RedisState
from services.store.reports import RedisReports
from services.store.snapshots import RedisSnapshots
from services.store.streams import AUDIT_KEPT, EVENTS_KEPT, RedisStream
from services.store.tokens import RedisTokens
from services.store.wishes import RedisWishes
from services.stream.errors import LedgerUnavailable
from services.stream.redis_ledger import RedisLedger
from shuffler.errors import NotOpened
from shuffler.lease import Progress
from shuffler.ledger import Terms


class LiveWiring:
    """Opens what a controller needs; everything is closed with the context.

    `owned` binds the workers to this process. `past` is traffic from before the first reading.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        config: Path | None,
        owned: bool = False,
        past: Mapping[str, TrafficHistory] | None = None,
    ) -> None:
        self._settings = settings
        self._config = config
        self._owned = owned
        self._past = past or {}
        self._clock = SystemClock()
        self._keys = Keys(settings.redis.prefix)
        self._redis = connect(settings.redis)
        self._redis_sync = connect_sync(settings.redis)
        self.store = RedisState(self._redis, self._keys)
        self.jobs = RedisJobs(self._redis, self._keys)
        self.tokens = RedisTokens(self._redis, self._keys)
        self.audit = RedisStream(self._redis, self._keys.audit(), kept=AUDIT_KEPT)
        self.events = RedisStream(self._redis, self._keys.events(), kept=EVENTS_KEPT)
        self.snapshots = RedisSnapshots(self._redis, self._keys)
        self.wishes = RedisWishes(self._redis, self._keys)
        self._opened: dict[str, JobSettings] = dict(settings.jobs)
        self._metering = Metering(settings, self._redis, self._keys, self._clock)
        self.leadership = RedisLeadership(self._redis, self._keys, ttl_s=settings.controller.leader_ttl_s)
        self._forecasts = ForecastFleets(settings.controller.models_dir)
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self.leadership)
        self._metering.start_watch(leading=lambda: self.leadership.token() is not None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()
        await self._metering.close()
        await self._redis.aclose()
        self._redis_sync.close()

    def store_trouble(self) -> str:
        """Why Redis cannot be used, as the leader's lock found out; empty when it can."""
        return self.leadership.trouble

    async def progress(self, name: str) -> Progress:
        """Where the job's ledger stands; nowhere before its first worker has opened it.

        Raises StateUnavailable.
        """
        job = self._opened.get(name)
        terms = Terms(ttl_s=job.shuffle.lease_ttl_s) if job else Terms()
        ledger = RedisLedger(self._redis_sync, self._keys, name, terms)
        try:
            return await asyncio.to_thread(ledger.progress)
        except NotOpened:
            return Progress({}, {}, trained=0, late=0, repeated=0, lost=0, epoch=0)
        except LedgerUnavailable as error:
            raise StateUnavailable(str(error)) from error

    def scores(self, name: str) -> tuple[ModelScore, ...]:
        """How good each model has been on this job lately; none where a light model speaks alone."""
        return tuple(ModelScore.like(score) for score in self._forecasts.scores(name) if score.scored > 0)

    def training(self, name: str) -> TrainingView | None:
        """How training of the job's models stands; None where nothing is trained."""
        status = self._forecasts.status(name)
        return None if status is None else TrainingView.of(status)

    async def roll_back_models(self, name: str, version: str) -> None:
        """Serve this version no more, in the job's fleet; weights are read in a thread of their own."""
        await asyncio.to_thread(self._forecasts.roll_back, name, version)

    async def forget(self, name: str) -> None:
        """Delete ledger, decisions, state and reports of a job. Raises StateUnavailable."""
        pattern = self._keys.state(name).removesuffix("state") + "*"
        async with asking(self._redis, f"deletion of {pattern}"):
            async for key in self._redis.scan_iter(match=pattern, count=1000):
                await self._redis.delete(key)

    def meters(self) -> Mapping[str, MeterFigures]:
        """What the meters say of themselves, by job."""
        return self._metering.figures()

    def watched(self) -> Mapping[str, MeterFigures]:
        """What is known of the topics that no job trains, by topic."""
        return self._metering.watched()

    def take_over(self, name: str, job: JobSettings) -> None:
        """The settings of an open job as they are now: lateness is counted by the new promise."""
        self._opened[name] = job

    @asynccontextmanager
    async def open_job(self, name: str, job: JobSettings) -> AsyncIterator[Ports]:
        """The ports of one job, closed with the context. Workers go on unless they are owned."""
        self._opened[name] = job
        async with AsyncExitStack() as stack:
            meter = await stack.enter_async_context(
                self._metering.open(
                    name,
                    job,
                    progress=partial(self.progress, name),
                    fresh_within_s=lambda: self._opened[name].slo.fresh_within_s,
                    past=self._past.get(name),
                )
            )
            own, owned = self._own_worker(), self._owned
            opened = open_pool(
                name,
                job.pool,
                own_worker=own,
                owned=owned,
                wishes=self.wishes,
                leases=job.shuffle.mode is Shuffle.LEASES,
            )
            pool = await stack.enter_async_context(opened)
            forecasts = await stack.enter_async_context(self._forecasts.open(name, job.forecast))
            yield Ports(
                clock=self._clock,
                leadership=self.leadership,
                meter=meter,
                forecasts=forecasts,
                pool=pool,
                telemetry=RedisReports(self._redis, self._keys, name),
                store=self.store,
            )

    def open_pool(self, name: str, pool: PoolSettings) -> AbstractAsyncContextManager[WorkerPool]:
        """A pool that belongs to no job. Workers go on unless they are owned."""
        own = self._own_worker()
        return open_pool(name, pool, own_worker=own, owned=self._owned, wishes=self.wishes)

    def _own_worker(self) -> list[str]:
        command = [sys.executable, "-m", "services.cli.main", "worker"]
        command += ["--job", "{job}", "--worker-id", "{worker}"]
        return command if self._config is None else [*command, "--config", str(self._config.absolute())]
