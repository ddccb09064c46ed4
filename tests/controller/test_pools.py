"""The pool that the settings name is the one that is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.actuator import ProcessPool, RecommendPool
from services.actuator.kubernetes_pool import KubernetesPool
from services.actuator.wish import MemoryWishes
from services.control.errors import PoolUnavailable
from services.control.types import PoolResize
from services.controller.pools import open_pool
from services.settings.pool import PoolSettings, TypePoolSettings
from tests.actuator.clusters import kubeconfig, workload
from tests.actuator.kubernetes_controllers import DEPLOYMENTS
from tests.actuator.kubernetes_server import api_server
from tests.actuator.processes import FAKE_WORKER, running
from tests.actuator.rigs import ask, settled, until


async def test_processes_are_the_default(tmp_path: Path) -> None:
    async with open_pool(
        "ads", PoolSettings(run_dir=tmp_path), own_worker=("true",), owned=True, wishes=MemoryWishes()
    ) as pool:
        assert isinstance(pool, ProcessPool)


async def test_a_pool_that_recommends() -> None:
    async with open_pool(
        "ads", PoolSettings(kind="recommend"), own_worker=(), owned=False, wishes=MemoryWishes()
    ) as pool:
        assert isinstance(pool, RecommendPool)


async def test_pods_are_reached_by_the_kubeconfig_of_the_settings(tmp_path: Path) -> None:
    async with api_server() as server:
        server.store.put(DEPLOYMENTS, workload("ads"))
        (tmp_path / "config").write_text(kubeconfig(server), encoding="utf-8")
        settings = PoolSettings.model_validate(
            {"kind": "kubernetes", "kubernetes": {"kubeconfig": tmp_path / "config"}}
        )
        async with open_pool("ads", settings, own_worker=(), owned=False, wishes=MemoryWishes()) as pool:
            assert isinstance(pool, KubernetesPool)
            await pool.resize(ask(2))
            await until(pool, settled(2), "two ready workers")


async def test_an_engine_that_does_not_answer_is_told() -> None:
    settings = PoolSettings.model_validate(
        {"kind": "docker", "docker": {"image": "ours", "url": "unix:///no/such/socket"}}
    )
    with pytest.raises(PoolUnavailable, match="the Docker engine does not answer"):
        async with open_pool("ads", settings, own_worker=(), owned=False, wishes=MemoryWishes()):
            pass


async def test_a_pool_for_each_gpu_type_has_workers_and_records_of_its_own(tmp_path: Path) -> None:
    settings = PoolSettings(
        command=[*FAKE_WORKER],
        run_dir=tmp_path,
        by_gpu_type={"NVIDIA A100": TypePoolSettings(), "t4": TypePoolSettings()},
    )

    async with open_pool("ads", settings, own_worker=(), owned=True, wishes=MemoryWishes()) as pool:
        for kind in settings.by_gpu_type:
            await pool.resize(PoolResize(1, "ads-1", fence=1, gpu_type=kind))

        state = await until(pool, lambda seen: seen.ready == 2, "a worker of each type")
        await pool.resize(PoolResize(1, "ads-2", fence=1, gpu_type="t4", release=True))
        left = (await pool.observe()).by_type

    assert {worker.id: worker.gpu_type for worker in state.workers} == {
        "nvidia-a100-1": "NVIDIA A100",
        "t4-1": "t4",
    }
    assert left == {"NVIDIA A100": 0, "t4": 1}


async def test_workers_of_each_gpu_type_are_found_again_by_the_next_controller(tmp_path: Path) -> None:
    settings = PoolSettings(
        command=[*FAKE_WORKER],
        run_dir=tmp_path,
        by_gpu_type={"a100": TypePoolSettings(), "t4": TypePoolSettings()},
    )
    async with open_pool("ads", settings, own_worker=(), owned=False, wishes=MemoryWishes()) as pool:
        for kind in settings.by_gpu_type:
            await pool.resize(PoolResize(1, "ads-1", fence=1, gpu_type=kind))
        await until(pool, lambda seen: seen.ready == 2, "a worker of each type")
    left = running(tmp_path)

    async with open_pool("ads", settings, own_worker=(), owned=True, wishes=MemoryWishes()) as successor:
        state = await until(successor, lambda seen: seen.ready == 2, "a worker of each type")
        adopted = running(tmp_path)

    assert {worker.id for worker in state.workers} == left.keys()
    assert adopted == left
    assert running(tmp_path) == {}
