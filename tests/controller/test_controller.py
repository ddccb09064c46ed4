"""The controller: one job's failure does not touch another; a follower opens nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from services.control.errors import PoolUnavailable, TrafficUnavailable
from services.control.loop import Ports, Tick
from services.control.ports import Telemetry, WorkerPool
from services.control.training_quality import TrainingQuality
from services.control.types import PoolState, Reason, WorkerReport
from services.controller import controller as controller_module
from services.controller.book import JobBook
from services.controller.controller import Controller
from services.controller.desk import Caller
from services.controller.journal import Journal
from services.controller.metrics import Metrics
from services.controller.showcase import Showcase
from services.controller.snapshot import JobSnapshot
from services.controller.views.forecast import ModelScore, TrainingView
from services.meter.figures import MeterFigures
from services.settings import JobSettings, Settings
from services.settings.fleet import BatchSettings, FleetSettings, GpuTypeSettings
from services.settings.pool import PoolSettings
from services.settings.scaling import ScalingSettings, SloSettings
from services.settings.traffic import MeterSettings
from services.store.jobs import MemoryJobs
from services.store.snapshots import MemorySnapshots
from shuffler.lease import Progress
from tests.control.fakes import (
    FakeClock,
    FakeLeadership,
    FakeMeter,
    FakePool,
    FakeStore,
    NoForecasts,
    NoTelemetry,
    ToldReports,
)
from tests.waiting import eventually_async


class YieldingClock(FakeClock):
    """Virtual time that lets other tasks run."""

    async def sleep_until(self, at_s: float) -> None:
        await super().sleep_until(at_s)
        await asyncio.sleep(0)


class FakeWiring:
    def __init__(self) -> None:
        self.leadership = FakeLeadership(1)
        self.store = FakeStore()
        self.clock = YieldingClock()
        self.fake_meters: dict[str, FakeMeter] = {}
        self.pools: dict[str, FakePool] = {}
        self.telemetry: Telemetry = NoTelemetry()
        self.opened: list[str] = []
        self.trouble = ""
        self.jobs = MemoryJobs()
        self.events = self.jobs.events
        self.snapshots = MemorySnapshots()
        self.forgotten: list[str] = []
        self.meter_figures: dict[str, MeterFigures] = {}
        self.taken_over: list[tuple[str, float]] = []
        self.rolled_back: list[tuple[str, str]] = []

    async def progress(self, name: str) -> Progress:
        return Progress({}, {}, trained=100, late=1, repeated=0, lost=0, epoch=1)

    def scores(self, name: str) -> tuple[ModelScore, ...]:
        return ()

    def meters(self) -> dict[str, MeterFigures]:
        return self.meter_figures

    def watched(self) -> dict[str, MeterFigures]:
        return {}

    def take_over(self, name: str, job: JobSettings) -> None:
        self.taken_over.append((name, job.slo.fresh_within_s))

    def training(self, name: str) -> TrainingView | None:
        return None

    async def roll_back_models(self, name: str, version: str) -> None:
        self.rolled_back.append((name, version))

    async def forget(self, name: str) -> None:
        self.forgotten.append(name)

    def store_trouble(self) -> str:
        return self.trouble

    @asynccontextmanager
    async def open_pool(self, name: str, pool: PoolSettings) -> AsyncIterator[WorkerPool]:
        self.opened.append(f"{name}: {pool.kind}")
        yield self.pools.setdefault(name, FakePool(0))

    @asynccontextmanager
    async def open_job(self, name: str, job: JobSettings) -> AsyncIterator[Ports]:
        self.opened.append(name)
        meter = self.fake_meters.setdefault(name, FakeMeter(self.clock))
        pool = self.pools.setdefault(name, FakePool())
        yield Ports(self.clock, self.leadership, meter, NoForecasts(), pool, self.telemetry, self.store)


@pytest.fixture
def wiring() -> FakeWiring:
    return FakeWiring()


REACTIVE = ScalingSettings(rule="reactive")
"""A rule that needs no compiler: what is tested here must not wait for one."""


def a_controller(wiring: FakeWiring, *jobs: str) -> Controller:
    settings = Settings.model_validate({"jobs": {job: {"topic": job, "scaling": REACTIVE} for job in jobs}})
    return Controller(settings, wiring, CollectorRegistry())


@asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[list[Tick]]:
    ticks: list[Tick] = []
    controller.journal.listen(ticks.append)
    task = asyncio.create_task(controller.run())
    try:
        yield ticks
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_job_that_breaks_is_opened_again_and_the_others_never_notice(
    wiring: FakeWiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_module, "_RESTART_AFTER_S", 0.0)
    wiring.fake_meters["bad"] = FakeMeter(wiring.clock, failure=RuntimeError("a bug"))

    async with running(a_controller(wiring, "bad", "good")) as ticks:
        await eventually_async(
            lambda: wiring.opened.count("bad") >= 3 and len([t for t in ticks if t.job == "good"]) >= 3,
            what="both jobs going on",
        )

    assert wiring.opened.count("good") == 1
    assert all(tick.error is None for tick in ticks if tick.job == "good")


async def test_a_job_that_cannot_be_measured_holds_while_another_is_resized(wiring: FakeWiring) -> None:
    wiring.fake_meters["away"] = FakeMeter(wiring.clock, failure=TrafficUnavailable("no broker"))
    wiring.fake_meters["busy"] = FakeMeter(wiring.clock, rate=4500)

    async with running(a_controller(wiring, "away", "busy")):
        await eventually_async(lambda: "busy" in wiring.pools and wiring.pools["busy"].asked, what="a resize")

    assert wiring.pools["away"].asked == []


async def test_the_jobs_of_a_controller_share_what_the_fleet_may(wiring: FakeWiring) -> None:
    jobs = {job: {"topic": job, "scaling": REACTIVE} for job in ("clicks", "views", "orders")}
    settings = Settings.model_validate({"controller": {"resizes_per_hour": 2}, "jobs": jobs})
    for job in jobs:
        wiring.fake_meters[job] = FakeMeter(wiring.clock, rate=4500)

    async with running(Controller(settings, wiring, CollectorRegistry())) as ticks:
        await eventually_async(
            lambda: all(len([t for t in ticks if t.job == job]) >= 5 for job in jobs),
            what="five ticks of each",
        )

    assert sorted(len(wiring.pools[job].asked) for job in jobs) == [0, 1, 1]
    held = {t.decision.reason for t in ticks if t.decision and t.decision.resize is None}
    assert Reason.FLEET_RESIZE_RATE in held


async def test_what_is_idle_is_lent_to_the_batch_pool(wiring: FakeWiring) -> None:
    fleet = FleetSettings(
        gpu_types={"a100": GpuTypeSettings(gpus=8)},
        batch=BatchSettings(gpu_type="a100", pool=PoolSettings(command=["true"])),
    )
    jobs = {"clicks": {"topic": "clicks", "scaling": REACTIVE}}
    settings = Settings.model_validate({"fleet": fleet, "jobs": jobs, "controller": {"tick_s": 0.05}})

    async with running(Controller(settings, wiring, CollectorRegistry())):
        await eventually_async(
            lambda: "batch" in wiring.pools and wiring.pools["batch"].requested == 7,
            what="what is idle is lent",
        )


async def test_a_follower_opens_nothing_until_it_leads(wiring: FakeWiring) -> None:
    wiring.leadership.leads_with = None
    controller = a_controller(wiring, "clicks")
    controller._settings = controller._settings.model_copy(
        update={"controller": controller._settings.controller.model_copy(update={"tick_s": 0.01})}
    )

    async with running(controller):
        await asyncio.sleep(0)
        assert wiring.opened == []
        wiring.leadership.leads_with = 5
        await eventually_async(lambda: wiring.opened == ["clicks"], what="the job opened")


async def test_readiness_names_the_dependency_in_the_way(wiring: FakeWiring) -> None:
    controller = a_controller(wiring, "clicks")

    assert controller.readiness().ready
    controller.journal.told(Tick("clicks", 1.0, error=TrafficUnavailable("no broker")), slo=SloSettings())
    assert controller.readiness().dependencies["kafka"] == "clicks: no broker"
    assert not controller.readiness().ready
    controller.journal.told(Tick("clicks", 1.0, error=PoolUnavailable("no answer")), slo=SloSettings())
    assert controller.readiness().dependencies["kafka"] == "ok"
    assert controller.readiness().dependencies["pool"] == "clicks: no answer"
    wiring.trouble = "connection refused"
    assert controller.readiness().dependencies["redis"] == "connection refused"


async def test_a_follower_is_ready(wiring: FakeWiring) -> None:
    wiring.leadership.leads_with = None

    readiness = a_controller(wiring, "clicks").readiness()

    assert readiness.ready
    assert not readiness.leading


BY = Caller("ann", "admin")


async def test_a_change_holds_from_the_next_tick_on(wiring: FakeWiring) -> None:
    controller = a_controller(wiring, "clicks")
    wiring.fake_meters["clicks"] = FakeMeter(wiring.clock, rate=4500)

    async with running(controller) as ticks:
        await eventually_async(lambda: ticks, what="a tick")
        await controller.desk.override("clicks", 7, BY, lasting_s=1e9, reason="a test")
        seen = len(ticks)
        # One tick may be under way while the change is made; the one after it must know.
        await eventually_async(lambda: len(ticks) >= seen + 2, what="two more ticks")

    after = [tick.decision for tick in ticks[seen + 1 :]]
    assert after
    assert all(decision is not None and decision.planned == 7 for decision in after)
    assert all(decision is not None and decision.reason == "override" for decision in after)
    assert wiring.opened == ["clicks"], "an SLO or a size needs no new ports"


async def test_a_rollback_reaches_the_models_at_once_and_after_a_restart(wiring: FakeWiring) -> None:
    controller = a_controller(wiring, "clicks")

    async with running(controller) as ticks:
        await eventually_async(lambda: ticks, what="a tick")
        assert wiring.rolled_back == []
        await controller.desk.roll_back_models("clicks", "7", BY, reason="bad")
        await eventually_async(lambda: wiring.rolled_back, what="the rollback")
    assert set(wiring.rolled_back) == {("clicks", "7")}

    wiring.rolled_back.clear()
    async with running(a_controller(wiring, "clicks")):
        await eventually_async(lambda: wiring.rolled_back, what="the rollback after a restart")
    assert set(wiring.rolled_back) == {("clicks", "7")}


async def test_a_paused_job_is_left_as_it_is_and_a_new_slo_reaches_the_metrics(wiring: FakeWiring) -> None:
    controller = a_controller(wiring, "clicks")

    async with running(controller) as ticks:
        await eventually_async(lambda: ticks, what="a tick")
        await controller.desk.pause("clicks", BY, reason="")
        await controller.desk.set_slo("clicks", SloSettings(fresh_within_s=7), BY, expected=None)
        await eventually_async(
            lambda: ticks[-1].decision is not None and ticks[-1].decision.reason == "paused", what="a pause"
        )
        wiring.fake_meters["clicks"].rate = 9000
        asked = len(wiring.pools["clicks"].asked)
        seen = len(ticks)
        await eventually_async(lambda: len(ticks) > seen + 3, what="more ticks")

    assert len(wiring.pools["clicks"].asked) == asked
    assert wiring.taken_over[-1] == ("clicks", 7.0), "the meter counts lateness by the new promise"


async def test_a_job_made_at_run_time_runs_and_a_deleted_one_drains(wiring: FakeWiring) -> None:
    controller = a_controller(wiring, "clicks")
    wiring.pools["views"] = EmptyingPool(requested=3)

    async with running(controller) as ticks:
        await eventually_async(lambda: ticks, what="a tick")
        await controller.desk.create("views", JobSettings(topic="views", scaling=REACTIVE), BY)
        await eventually_async(lambda: any(tick.job == "views" for tick in ticks), what="the new job")
        await controller.desk.delete("views", BY, expected=None, forget=True)
        await eventually_async(lambda: wiring.forgotten == ["views"], what="the job forgotten")
        await eventually_async(lambda: not controller.book.leaving, what="the name free again")
        await eventually_async(lambda: controller.status("views") is None, what="nothing shown of it")
        await controller.desk.create("views", JobSettings(topic="views", scaling=REACTIVE), BY)

    assert wiring.pools["views"].requested == 0
    assert set(controller.jobs) == {"clicks", "views"}


async def test_a_deleted_job_that_a_dead_controller_left_is_taken_down_by_the_next(
    wiring: FakeWiring,
) -> None:
    wiring.pools["clicks"] = EmptyingPool(requested=2)
    first = a_controller(wiring, "clicks")
    await first.book.open()
    await first.desk.delete("clicks", BY, expected=None, forget=False)

    async with running(a_controller(wiring, "clicks")) as ticks:
        await eventually_async(lambda: wiring.pools["clicks"].requested == 0, what="the pool drained")

    assert ticks == []


async def test_settings_that_the_ports_depend_on_open_the_job_anew(wiring: FakeWiring) -> None:
    controller = a_controller(wiring, "clicks")

    async with running(controller) as ticks:
        await eventually_async(lambda: ticks, what="a tick")
        slower = {"meter": MeterSettings(window_s=33.0)}
        await controller.desk.replace("clicks", lambda s: s.model_copy(update=slower), BY, expected=None)
        await eventually_async(lambda: wiring.opened == ["clicks", "clicks"], what="the job opened anew")


async def test_a_follower_shows_what_the_leader_left(wiring: FakeWiring) -> None:
    leader = a_controller(wiring, "clicks")
    async with running(leader) as ticks:
        await eventually_async(lambda: ticks, what="a tick")
        await eventually_async(lambda: wiring.snapshots._documents, what="a snapshot")
    wiring.leadership.leads_with = None
    follower = a_controller(wiring, "clicks")

    shown = await follower.snapshot("clicks")

    assert shown is not None
    assert shown.traffic is not None
    assert shown.traffic.partitions == 4
    assert shown.quality is not None
    assert shown.quality.late_share == 0.01


async def test_what_a_leader_left_long_ago_is_said_to_be_old(wiring: FakeWiring) -> None:
    async with running(a_controller(wiring, "clicks")) as ticks:
        await eventually_async(lambda: ticks, what="a tick")
        await eventually_async(lambda: wiring.snapshots._documents, what="a snapshot")
    wiring.leadership.leads_with = None
    clock = FakeClock()
    showcase = Showcase(
        Journal(Metrics(CollectorRegistry())),
        JobBook(wiring.jobs, {}, clock),
        wiring,
        clock=clock,
        silent_after_s=20.0,
    )
    left = JobSnapshot.model_validate_json(wiring.snapshots._documents["clicks"])

    async def shown_after(seconds: float) -> JobSnapshot:
        await clock.sleep_until(left.at_s + seconds)
        shown = await showcase.snapshot("clicks")
        assert shown is not None
        return shown

    assert not (await shown_after(19.0)).degraded
    old = await shown_after(45.0)
    assert old.degraded
    assert old.trouble.startswith("no decision for 45 s")
    assert old.traffic == left.traffic, "what was known is still shown"


async def test_how_good_the_model_is_is_shown_where_workers_tell(wiring: FakeWiring) -> None:
    told = [
        WorkerReport(
            f"w-{n}", 1000.0, 10, 0.5, 20.0, quality=TrainingQuality(samples, auc, 0.5, age_s, rejected=1)
        )
        for n, (samples, auc, age_s) in enumerate([(300, 0.8, 2.0), (100, 0.6, 6.0)])
    ]
    wiring.telemetry = ToldReports(tuple(told))
    controller = a_controller(wiring, "clicks")

    async with running(controller) as ticks:
        await eventually_async(lambda: ticks, what="a tick")
        shown = await controller.snapshot("clicks")

    assert shown is not None
    assert shown.quality is not None
    assert shown.quality.auc == pytest.approx(0.75)
    assert shown.quality.sample_age_s == pytest.approx(3.0)
    assert (shown.quality.evaluated, shown.quality.rejected, shown.quality.skipped_batches) == (400, 2, 0)


class EmptyingPool(FakePool):
    """Its workers leave when they are asked to."""

    async def observe(self) -> PoolState:
        return PoolState(requested=self.requested) if self.requested == 0 else await super().observe()


async def test_the_late_share_shown_is_that_by_arrival_once_the_meter_counts(wiring: FakeWiring) -> None:
    controller = a_controller(wiring, "clicks", "views")
    wiring.fake_meters["views"] = FakeMeter(wiring.clock, late_share=0.25)

    async with running(controller) as ticks:
        await eventually_async(lambda: {tick.job for tick in ticks} == {"clicks", "views"}, what="ticks")
        counted, not_counted = await controller.snapshot("views"), await controller.snapshot("clicks")

    assert counted is not None
    assert counted.quality is not None
    assert (counted.quality.late_share, counted.quality.late_share_by_event_time) == (0.25, 0.01)
    assert not_counted is not None
    assert not_counted.quality is not None
    assert not_counted.quality.late_share == 0.01
