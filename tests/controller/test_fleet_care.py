"""What a leader does for its fleet beside the jobs: workers that wait for a node are told one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from services.control.ports import WorkerPool
from services.controller.fleet_care import FleetCare
from services.controller.fleet_desk import FleetDesk
from services.controller.fleet_source import node_source
from services.settings import JobSettings
from services.settings.fleet import FleetSettings, PlatformSettings
from services.settings.pool import PoolSettings
from tests.actuator.clusters import kubeconfig
from tests.actuator.kubernetes_server import Fault, api_server
from tests.control.fakes import FakeLeadership
from tests.controller.test_usher import UsherRig
from tests.waiting import eventually_async


class World:
    """A leader, or not, without a batch pool."""

    def __init__(self) -> None:
        self.leadership = FakeLeadership(1)

    def open_pool(self, name: str, pool: PoolSettings) -> AbstractAsyncContextManager[WorkerPool]:
        raise NotImplementedError(name, pool)


@asynccontextmanager
async def cared_for(rig: UsherRig, world: World, config: Path) -> AsyncIterator[FleetDesk]:
    await asyncio.to_thread(config.write_text, kubeconfig(rig.server), encoding="utf-8")
    settings = FleetSettings(platform=PlatformSettings(kind="kubernetes", kubeconfig=config))
    desk = FleetDesk(settings, interval_s=1.0, status=lambda _: None, find=node_source(settings.platform))
    care = FleetCare(settings, desk, lambda: {"ads": JobSettings(topic="ads")}, world)
    tasks = [asyncio.create_task(care.follow_nodes()), asyncio.create_task(care.tend_gates())]
    try:
        yield desk
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def seated(rig: UsherRig, count: int) -> None:
    def all_have_nodes() -> bool:
        return rig.nodes()[""] == 0 and rig.nodes().total() == count

    await eventually_async(all_have_nodes, what=f"{count} with a node", within_s=30.0)


async def test_the_leader_opens_the_gate_and_a_follower_does_not(tmp_path: Path) -> None:
    world = World()
    async with api_server() as server:
        rig = UsherRig(server)
        async with cared_for(rig, world, tmp_path / "config") as desk:
            rig.scale("ads", 2)
            await seated(rig, 2)
            assert max(rig.nodes().values()) == 2  # packed

            world.leadership.leads_with = None
            await eventually_async(lambda: desk.usher is None, what="it stops", within_s=30.0)
            rig.scale("ads", 3)
            assert rig.nodes()[""] == 1

            world.leadership.leads_with = 2
            await seated(rig, 3)


async def test_a_mistake_in_reading_neither_ends_the_task_nor_leaves_workers_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.controller.fleet_care._AGAIN_AFTER_S", 0.05)
    async with api_server() as server:
        rig = UsherRig(server)
        broken = server.store.get("/api/v1/nodes", "n0")
        server.store.put("/api/v1/nodes", {**broken, "spec": {"taints": 7}})
        async with cared_for(rig, World(), tmp_path / "config"):
            rig.scale("ads", 1)
            await eventually_async(lambda: rig.nodes()[""] == 1, what="it waits")
            server.store.put("/api/v1/nodes", broken)

            await seated(rig, 1)


async def test_a_server_that_is_away_at_first_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.controller.fleet_care._AGAIN_AFTER_S", 0.05)
    async with api_server() as server:
        rig = UsherRig(server)
        server.faults.append(Fault("GET", r"^/api/v1/pods\?", 503, "not yet", times=3))
        async with cared_for(rig, World(), tmp_path / "config"):
            rig.scale("ads", 1)
            await seated(rig, 1)
