"""The controller: one job's failure does not touch another; a follower opens nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from services.control.errors import PoolUnavailable, TrafficUnavailable
from services.control.loop import Ports, Tick
from services.controller import controller as controller_module
from services.controller.controller import Controller
from services.settings import JobSettings, Settings
from tests.control.fakes import (
    FakeClock,
    FakeLeadership,
    FakeMeter,
    FakePool,
    FakeStore,
    NoForecasts,
    NoTelemetry,
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
        self.meters: dict[str, FakeMeter] = {}
        self.pools: dict[str, FakePool] = {}
        self.opened: list[str] = []
        self.trouble = ""

    def store_trouble(self) -> str:
        return self.trouble

    @asynccontextmanager
    async def open_job(self, name: str, job: JobSettings) -> AsyncIterator[Ports]:
        self.opened.append(name)
        meter = self.meters.setdefault(name, FakeMeter(self.clock))
        pool = self.pools.setdefault(name, FakePool())
        yield Ports(self.clock, self.leadership, meter, NoForecasts(), pool, NoTelemetry(), self.store)


@pytest.fixture
def wiring() -> FakeWiring:
    return FakeWiring()


def a_controller(wiring: FakeWiring, *jobs: str) -> Controller:
    settings = Settings.model_validate({"jobs": {job: {"topic": job} for job in jobs}})
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
    wiring.meters["bad"] = FakeMeter(wiring.clock, failure=RuntimeError("a bug"))

    async with running(a_controller(wiring, "bad", "good")) as ticks:
        await eventually_async(
            lambda: wiring.opened.count("bad") >= 3 and len([t for t in ticks if t.job == "good"]) >= 3,
            what="both jobs going on",
        )

    assert wiring.opened.count("good") == 1
    assert all(tick.error is None for tick in ticks if tick.job == "good")


async def test_a_job_that_cannot_be_measured_holds_while_another_is_resized(wiring: FakeWiring) -> None:
    wiring.meters["away"] = FakeMeter(wiring.clock, failure=TrafficUnavailable("no broker"))
    wiring.meters["busy"] = FakeMeter(wiring.clock, rate=4500)

    async with running(a_controller(wiring, "away", "busy")):
        await eventually_async(lambda: "busy" in wiring.pools and wiring.pools["busy"].asked, what="a resize")

    assert wiring.pools["away"].asked == []


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
    controller.journal.told(Tick("clicks", 1.0, error=TrafficUnavailable("no broker")), slo_s=60)
    assert controller.readiness().dependencies["kafka"] == "clicks: no broker"
    assert not controller.readiness().ready
    controller.journal.told(Tick("clicks", 1.0, error=PoolUnavailable("no answer")), slo_s=60)
    assert controller.readiness().dependencies["kafka"] == "ok"
    assert controller.readiness().dependencies["pool"] == "clicks: no answer"
    wiring.trouble = "connection refused"
    assert controller.readiness().dependencies["redis"] == "connection refused"


async def test_a_follower_is_ready(wiring: FakeWiring) -> None:
    wiring.leadership.leads_with = None

    readiness = a_controller(wiring, "clicks").readiness()

    assert readiness.ready
    assert not readiness.leading
