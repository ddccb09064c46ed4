"""The controller: one loop per job, each in a task of its own, while this process leads."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog
from prometheus_client import CollectorRegistry

from services.clock import SystemClock
from services.control.errors import (
    ControlError,
    StateUnavailable,
)
from services.control.fleet import FleetCount
from services.control.loop import JobLoop, Tick
from services.control.types import Actuation, Decision, Policy
from services.controller.book import JobBook
from services.controller.desk import Desk
from services.controller.fleet_care import FleetCare
from services.controller.fleet_desk import FleetDesk
from services.controller.fleet_source import node_source
from services.controller.journal import JobStatus, Journal
from services.controller.meter_metrics import MeterMetrics
from services.controller.metrics import Metrics
from services.controller.ports import Wiring
from services.controller.publisher import Publisher
from services.controller.readiness import Readiness, blamed
from services.controller.retirement import retire
from services.controller.showcase import Showcase
from services.controller.snapshot import JobSnapshot
from services.settings import JobSettings, Settings
from services.store.job_record import JobRecord

log = structlog.get_logger()

_RESTART_AFTER_S = 5.0
"""A job whose loop broke is opened again after this long; the others never notice."""


class Controller:
    """Runs the jobs that the store defines until it is cancelled."""

    def __init__(self, settings: Settings, wiring: Wiring, registry: CollectorRegistry) -> None:
        self.journal = Journal(Metrics(registry))
        registry.register(MeterMetrics(wiring.meters, wiring.watched))
        self._settings = settings
        self._wiring = wiring
        clock = SystemClock()
        self.book = JobBook(wiring.jobs, settings.jobs, clock)
        self.fleet = FleetDesk(
            settings.fleet,
            interval_s=settings.controller.tick_s,
            status=self.journal.status,
            find=node_source(settings.fleet.platform),
        )
        self.desk = Desk(
            self.book,
            clock,
            allow_commands=settings.api.allow_commands,
            decision_of=self._decision_of,
            check_jobs=self.fleet.check,
        )
        self._showcase = Showcase(
            self.journal,
            self.book,
            wiring,
            clock=clock,
            silent_after_s=3 * settings.controller.tick_s + settings.controller.leader_ttl_s,
        )
        self._publisher = Publisher(wiring.events, wiring.snapshots, self._showcase.document)
        self.journal.listen(self._showcase.told)
        self.journal.listen(self._publisher.told)
        self._fleet = FleetCount()
        self._running: dict[str, tuple[JobSettings, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Every job in a task of its own: one that breaks does not touch another."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._publisher.run(), name="publisher")
            await self._open_book()
            care = FleetCare(self._settings.fleet, self.fleet, self._job_settings, self._wiring)
            for task in (care.follow_nodes, care.tend_batch, care.tend_gates):
                tasks.create_task(task(), name=f"fleet: {task.__name__}")
            while True:
                await self._start_and_stop(tasks)
                await self.book.changed(within_s=self._pause_s)
                await self._refresh()
                self.fleet.refresh(self._job_settings())

    def _job_settings(self) -> dict[str, JobSettings]:
        return {name: record.settings for name, record in self.book.live.items()}

    @property
    def _pause_s(self) -> float:
        return min(1.0, self._settings.controller.tick_s)

    async def _open_book(self) -> None:
        while True:
            try:
                return await self.book.open()
            except StateUnavailable as error:
                log.warning("jobs_not_known_yet", why=str(error))
                await asyncio.sleep(self._pause_s)

    async def _refresh(self) -> None:
        """A store that is away is told by the ticks; until it is back the jobs stay as they are."""
        try:
            await self.book.refresh()
        except StateUnavailable as error:
            log.debug("jobs_not_refreshed", why=str(error))

    async def _start_and_stop(self, tasks: asyncio.TaskGroup) -> None:
        """One task for each job; a new one where the ports have to be opened anew."""
        wanted = self.book.live | self.book.leaving
        for name, (opened, task) in list(self._running.items()):
            record = wanted.get(name)
            if record is None or task.done() or _needs_reopening(opened, record):
                task.cancel()
                await asyncio.wait([task])
                del self._running[name]
                if record is None or record.deleted:
                    self.journal.forget(name)
                    self._showcase.forget(name)
        for name, record in wanted.items():
            if name not in self._running:
                work = self._retire(record) if record.deleted else self._keep_running(name)
                self._running[name] = (record.settings, tasks.create_task(work, name=f"job {name}"))

    async def _keep_running(self, name: str) -> None:
        while True:
            try:
                await self._run_job(name)
            except Exception:
                log.exception("job_broke", job=name, again_in_s=_RESTART_AFTER_S)
                await asyncio.sleep(_RESTART_AFTER_S)

    async def _run_job(self, name: str) -> None:
        await self._lead_first()
        record = self._record(name)

        def tell(tick: Tick) -> None:
            self.journal.told(tick, slo=record.settings.slo)

        async def take_over() -> None:
            nonlocal record
            await self._refresh()
            latest = self._record(name)
            if latest.version != record.version and not latest.deleted:
                record = latest
                self._wiring.take_over(name, record.settings)
                await self._heed_rollback(record)
                policy = self._policy(record)
                await asyncio.to_thread(policy.rule.prepare)
                loop.policy = policy
                log.info("job_policy_replaced", job=name, version=record.version)

        first = self._policy(record)
        await asyncio.to_thread(first.rule.prepare)
        async with self._wiring.open_job(name, record.settings) as ports:
            await self._heed_rollback(record)
            loop = JobLoop(name, first, replace(ports, fleet=self._fleet, share=self.fleet.share), tell=tell)
            await loop.run(interval_s=self._settings.controller.tick_s, prepare=take_over)

    async def _heed_rollback(self, record: JobRecord) -> None:
        """At every change and start: the models may lie elsewhere now, and one told of before stays away."""
        if record.rollback is not None:
            await self._wiring.roll_back_models(record.name, record.rollback.version)

    def _policy(self, record: JobRecord) -> Policy:
        settings = self._settings.controller
        policy = record.policy(
            stale_after_s=settings.stale_after_s, fleet_resizes_per_hour=settings.resizes_per_hour
        )
        job = record.settings
        if "rate_per_worker" in job.scaling.model_fields_set or job.scaling.profile:
            return policy  # what somebody said or measured of this very job
        kind = next(iter(job.standing(record.name).gpu_types), "")
        prior = self.fleet.prior(job.fleet.group, kind, self._job_settings())
        return policy if prior is None else replace(policy, capacity_prior=prior.capacity)

    def _record(self, name: str) -> JobRecord:
        record = self.book.get(name)
        if record is None:
            raise StateUnavailable(f"the store has no job {name!r} any more")
        return record

    async def _retire(self, record: JobRecord) -> None:
        """Once leading: drain the workers of a deleted job, forget what is to be forgotten."""
        while True:
            await self._lead_first()
            try:
                return await retire(record, self._wiring, self.book.store)
            except ControlError as error:
                log.warning("job_not_retired_yet", job=record.name, why=str(error))
                await asyncio.sleep(self._pause_s)
            except Exception:
                log.exception("job_broke", job=record.name, again_in_s=_RESTART_AFTER_S)
                await asyncio.sleep(_RESTART_AFTER_S)

    async def _lead_first(self) -> None:
        """A follower opens nothing: two supervisors of one pool would both replace a dead worker."""
        while self._wiring.leadership.token() is None:  # noqa: ASYNC110 - it is gained and lost by the clock
            await asyncio.sleep(self._pause_s)

    @property
    def jobs(self) -> dict[str, JobRecord]:
        """The jobs by name."""
        return self.book.live

    @property
    def leading(self) -> bool:
        """Whether this controller leads."""
        return self._wiring.leadership.token() is not None

    def status(self, job: str) -> JobStatus | None:
        """The latest of one job, as this controller saw it."""
        return self.journal.status(job)

    async def snapshot(self, job: str) -> JobSnapshot | None:
        """The latest of one job, as the leader saw it; None when nobody has. Raises StateUnavailable."""
        return await self._showcase.snapshot(job)

    async def decisions(self, job: str, *, limit: int) -> tuple[Decision, ...]:
        """The latest decisions of a job, newest first."""
        return await self._wiring.store.decisions(job, limit=limit)

    async def actuations(self, job: str, *, limit: int) -> tuple[Actuation, ...]:
        """The trail of a pool's resizes, newest first, each with what became of it."""
        return await self._wiring.store.actuations(job, limit=limit)

    def _decision_of(self, job: str) -> str | None:
        status = self.journal.status(job)
        return status.decision.id if status and status.decision else None

    def readiness(self) -> Readiness:
        """Which dependency is in the way, by what the latest ticks ran into."""
        troubles = {"redis": self._wiring.store_trouble() or "ok", "kafka": "ok", "pool": "ok"}
        for name in self.book.live:
            status = self.journal.status(name)
            if status is not None:
                troubles |= {part: f"{name}: {why}" for part, why in blamed(status.tick).items()}
        return Readiness(self.leading, troubles)


def _needs_reopening(opened: JobSettings, record: JobRecord) -> bool:
    """What the loop takes over by itself, SLO and scaling, needs no new ports; the rest does."""
    policy = {"slo", "scaling"}
    return record.deleted or opened.model_dump(exclude=policy) != record.settings.model_dump(exclude=policy)
