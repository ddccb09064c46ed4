"""What a Ray pool does beyond the contract: wait for GPUs, ask for nodes, outlive controller and keeper."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import psutil
import pytest

from services.actuator.ray_nodes import ray_fleet_of
from services.control.errors import Fenced
from services.control.types import WorkerPhase
from tests.actuator import actors
from tests.actuator.actors import GPU_TYPE, GPUS_PER_NODE, RayRig, ray_rig
from tests.actuator.rigs import ask, ids, settled
from tests.waiting import eventually

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(bool(actors.lacking()), reason="needs ray"),
]


@pytest.fixture
async def rig(ray_address: str) -> AsyncIterator[RayRig]:
    async with ray_rig(ray_address) as made:
        yield made


async def test_workers_beyond_the_gpus_wait_and_the_autoscaler_is_asked_for_all(rig: RayRig) -> None:
    import ray

    most = 2 * GPUS_PER_NODE
    await rig.pool.resize(ask(most + 1))

    state = await rig.until(lambda pool: pool.ready == most, "as many as there are GPUs")
    assert state.count(WorkerPhase.STARTING) == 1
    demand = ray.get_actor("penstock-demand", namespace="penstock")
    asked_for = ray.get(demand.want.remote("another", [{"GPU": 1.0}]), timeout=30)
    assert asked_for >= most + 2, "the demand of all pools is added up"

    await rig.pool.resize(ask(most))
    await rig.until(settled(most), "the one that waited is called off, and nobody else")


async def test_a_worker_is_told_how_long_it_has_to_leave(rig: RayRig) -> None:
    import ray

    await rig.pool.resize(ask(1))
    state = await rig.until(settled(1), "one worker")

    actor = ray.get_actor(f"penstock-{rig.job}-{state.workers[0].id}", namespace="penstock")
    worker = psutil.Process(ray.get(actor.sight.remote(), timeout=30).pid)
    assert worker.environ()["PENSTOCK_DRAIN_S"] == "600"


async def test_a_worker_tells_the_gpu_type_that_was_asked_for(rig: RayRig) -> None:
    await rig.pool.close()
    rig.pool = rig.another(gpu_type=GPU_TYPE)
    await rig.pool.open()
    await rig.pool.resize(ask(1))

    (worker,) = (await rig.until(settled(1), "one worker")).workers

    assert worker.gpu_type == GPU_TYPE


def gpu_nodes() -> list[str]:
    """As a fleet names them."""
    import ray

    return sorted(ray_fleet_of(ray.nodes()).nodes)


async def test_workers_come_to_the_nodes_that_are_named_and_tell_them_as_the_fleet_does(rig: RayRig) -> None:
    first, second = gpu_nodes()
    await rig.pool.resize(replace(ask(2), nodes=(second, second)))
    state = await rig.until(settled(2), "two workers")
    assert [worker.node for worker in state.workers] == [second, second]

    await rig.pool.resize(replace(ask(3), nodes=(first, second, second)))
    state = await rig.until(settled(3), "a third")
    assert sorted(worker.node for worker in state.workers) == [first, second, second]
    assert rig.pool.capabilities().places


async def test_a_worker_whose_node_is_full_or_gone_comes_elsewhere_at_once(rig: RayRig) -> None:
    first, second = gpu_nodes()
    named = (first,) * (GPUS_PER_NODE + 1) + ("nowhere",)
    await rig.pool.resize(replace(ask(len(named)), nodes=named))

    state = await rig.until(settled(len(named)), "all of them")

    assert Counter(worker.node for worker in state.workers)[second] >= 1
    assert {worker.node for worker in state.workers} == {first, second}


async def test_a_successor_goes_on_with_the_workers_that_are_there(rig: RayRig) -> None:
    await rig.pool.resize(ask(2))
    before = ids(await rig.until(settled(2), "two workers"), WorkerPhase.READY)
    await rig.pool.close()

    rig.pool = rig.another()
    await rig.pool.open()
    await rig.pool.resize(ask(2, fence=2))

    state = await rig.until(settled(2), "the same two")
    assert ids(state, WorkerPhase.READY) == before
    assert state.failures == 0


async def test_a_keeper_that_dies_goes_on_with_the_record_it_had(rig: RayRig) -> None:
    import ray

    await rig.pool.resize(ask(2, fence=5))
    before = ids(await rig.until(settled(2), "two workers"), WorkerPhase.READY)

    keeper = ray.get_actor(f"penstock-{rig.job}", namespace="penstock")

    def process() -> int:
        """Its pid; while it is started again nobody answers."""
        try:
            return int(ray.get(keeper.__ray_call__.remote(lambda _: os.getpid()), timeout=30))
        except ray.exceptions.RayError as error:
            raise AssertionError(str(error)) from error

    first = process()
    ray.kill(keeper, no_restart=False)
    eventually(lambda: process() != first, within_s=60.0, what="the keeper is started again")

    with pytest.raises(Fenced):
        await rig.pool.resize(ask(9, fence=4))
    state = await rig.until(settled(2), "the same two")
    assert ids(state, WorkerPhase.READY) == before
    assert state.failures == 0


async def test_a_command_that_cannot_run_is_told_and_does_not_spin(rig: RayRig) -> None:
    await rig.pool.close()
    rig.pool = rig.another("dies-at-start")
    await rig.pool.open()
    await rig.pool.resize(ask(1))

    state = await rig.until(lambda pool: "cannot find the topic" in pool.trouble, "its last words")
    assert state.ready == 0
