"""What every pool promises, whatever its workers are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.actuator import MemoryPool, RecommendPool
from services.control.errors import Fenced, Rejected
from services.control.ports import WorkerPool
from services.control.types import PoolState, Victims, WorkerPhase
from tests.actuator import actors, control_plane
from tests.actuator.clusters import cluster_rig, keda_rig
from tests.actuator.containers import docker_rig, lacking
from tests.actuator.rigs import HandClock, MemoryRig, ProcessRig, Rig, ask, fake_pool, ids, settled

DOCKER = pytest.param("docker", marks=pytest.mark.containers)
RAY = pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.filterwarnings("default")])
PLANE = [] if control_plane.lacking() else [pytest.param("control plane", marks=pytest.mark.kubernetes)]
ACTING = ["memory", "process", "kubernetes", "keda", *PLANE, DOCKER, RAY]


@asynccontextmanager
async def acting(request: pytest.FixtureRequest, run_dir: Path) -> AsyncIterator[Rig]:
    kind = request.param
    if kind == "memory":
        yield MemoryRig()
    elif kind == "process":
        async with fake_pool(run_dir) as pool:
            yield ProcessRig(run_dir, pool)
    elif kind == "kubernetes":
        async with cluster_rig() as cluster:
            yield cluster
    elif kind == "keda":
        async with keda_rig() as pulled:
            yield pulled
    elif kind == "control plane":
        async with control_plane.plane_rig() as plane:
            yield plane
    elif kind == "ray":
        if actors.lacking():
            pytest.skip(actors.lacking())
        async with actors.ray_rig(request.getfixturevalue("ray_address")) as cluster_of_ray:
            yield cluster_of_ray
    elif lacking():
        pytest.skip(lacking())
    else:
        async with docker_rig() as docker:
            yield docker


@pytest.fixture(params=ACTING)
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """Every pool that acts."""
    async with acting(request, tmp_path) as made:
        yield made


@pytest.fixture(params=["memory", "process", "kubernetes", *PLANE, DOCKER, RAY])
async def choosing(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """Every pool whose leavers can be chosen."""
    async with acting(request, tmp_path) as made:
        assert made.pool.capabilities().victims is Victims.ANY
        yield made


@pytest.fixture(
    params=[
        "memory",
        "process",
        "kubernetes",
        "keda",
        *PLANE,
        DOCKER,
        RAY,
        "recommend",
        "recommend, watching",
    ]
)
async def any_pool(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[WorkerPool]:
    """Every pool, those that never act included."""
    if request.param == "recommend":
        yield RecommendPool()
    elif request.param == "recommend, watching":
        yield RecommendPool(MemoryPool(HandClock()))
    else:
        async with acting(request, tmp_path) as made:
            yield made.pool


async def test_a_new_pool_was_asked_for_nothing_and_has_nothing(any_pool: WorkerPool) -> None:
    assert await any_pool.observe() == PoolState(requested=0)


async def test_a_superseded_controller_is_refused(any_pool: WorkerPool) -> None:
    await any_pool.resize(ask(2, fence=7))
    before = await any_pool.observe()

    with pytest.raises(Fenced) as refusal:
        await any_pool.resize(ask(5, fence=6))

    assert (refusal.value.token, refusal.value.newest) == (6, 7)
    assert (await any_pool.observe()).requested == before.requested


async def test_the_same_leader_may_ask_again_and_a_newer_one_too(any_pool: WorkerPool) -> None:
    for fence in (7, 7, 8):
        await any_pool.resize(ask(1, fence=fence))


async def test_a_negative_size_is_refused(any_pool: WorkerPool) -> None:
    with pytest.raises(Rejected, match="-1 workers were asked for"):
        await any_pool.resize(ask(-1))


async def test_what_a_pool_can_do_does_not_change(any_pool: WorkerPool) -> None:
    before = any_pool.capabilities()
    await any_pool.resize(ask(1))

    assert any_pool.capabilities() == before


async def test_workers_of_a_pool_can_stand_by(rig: Rig) -> None:
    """Whoever is ready is told by the assignment what it is for; no platform has to know."""
    assert rig.pool.capabilities().standbys


async def test_only_ray_gives_a_worker_a_part_of_a_gpu(rig: Rig, request: pytest.FixtureRequest) -> None:
    assert rig.pool.capabilities().fractional_gpus == ("ray" in request.node.callspec.id)


async def test_a_worker_tells_since_when_and_where_it_is(rig: Rig, request: pytest.FixtureRequest) -> None:
    await rig.pool.resize(ask(1))

    (worker,) = (await rig.until(settled(1), "one ready worker")).workers

    assert worker.started_at_s > 0
    assert bool(worker.node) == ("memory" not in request.node.callspec.id), "of memory there is one"


async def test_a_resize_shows_as_requested_at_once(rig: Rig) -> None:
    await rig.pool.resize(ask(3))

    assert (await rig.pool.observe()).requested == 3


async def test_a_pool_grows_to_its_size(rig: Rig) -> None:
    await rig.pool.resize(ask(3))

    state = await rig.until(settled(3), "three ready workers")
    assert (state.failures, state.trouble) == (0, "")
    assert len({worker.id for worker in state.workers}) == 3


async def test_a_duplicate_resize_is_one(rig: Rig) -> None:
    await rig.pool.resize(ask(2))
    await rig.pool.resize(ask(2))
    before = await rig.until(settled(2), "two ready workers")

    await rig.pool.resize(ask(2))

    assert await rig.until(settled(2), "still two") == before


async def test_the_workers_to_remove_are_the_ones_that_go(choosing: Rig) -> None:
    await choosing.pool.resize(ask(3))
    before = await choosing.until(settled(3), "three ready workers")
    leaving, *staying = sorted(ids(before, WorkerPhase.READY))

    await choosing.pool.resize(ask(2, remove=(leaving,)))

    state = await choosing.until(settled(2), "two ready workers")
    assert ids(state, WorkerPhase.READY) == set(staying)
    assert state.failures == 0


async def test_a_removal_repeated_takes_nobody_else(choosing: Rig) -> None:
    await choosing.pool.resize(ask(3))
    before = await choosing.until(settled(3), "three ready workers")
    leaving, *staying = sorted(ids(before, WorkerPhase.READY))

    for _ in range(3):
        await choosing.pool.resize(ask(2, remove=(leaving,)))
        await choosing.until(settled(2), "two ready workers")

    assert ids(await choosing.pool.observe(), WorkerPhase.READY) == set(staying)


async def test_without_a_choice_the_youngest_go(choosing: Rig) -> None:
    await choosing.pool.resize(ask(1))
    oldest = await choosing.until(settled(1), "one ready worker")
    await choosing.pool.resize(ask(3))
    await choosing.until(settled(3), "three ready workers")

    await choosing.pool.resize(ask(1))

    state = await choosing.until(settled(1), "one ready worker again")
    assert ids(state, WorkerPhase.READY) == ids(oldest, WorkerPhase.READY)


async def test_a_pool_shrinks_to_nothing_and_grows_again(rig: Rig) -> None:
    assert rig.pool.capabilities().scale_to_zero
    await rig.pool.resize(ask(2))
    before = await rig.until(settled(2), "two ready workers")
    await rig.pool.resize(ask(0))
    await rig.until(settled(0), "an empty pool")

    await rig.pool.resize(ask(1))

    state = await rig.until(settled(1), "one ready worker")
    assert not ids(state, WorkerPhase.READY) & ids(before, WorkerPhase.READY), "a worker id was used twice"


async def test_a_worker_that_dies_is_counted_and_replaced(rig: Rig) -> None:
    await rig.pool.resize(ask(2))
    before = await rig.until(settled(2), "two ready workers")
    victim, survivor = sorted(ids(before, WorkerPhase.READY))

    rig.kill(victim)

    await rig.until(lambda state: state.failures == 1, "the loss is noticed")
    state = await rig.until(settled(2), "two ready workers again")
    assert survivor in ids(state, WorkerPhase.READY)
    assert victim not in ids(state, WorkerPhase.READY)
    assert (state.failures, state.requested) == (1, 2)


async def test_lead_times_tell_how_long_each_worker_took(rig: Rig) -> None:
    await rig.pool.resize(ask(2))
    state = await rig.until(settled(2), "two ready workers")

    told = rig.pool.lead_times()
    assert {start.worker for start in told} == ids(state, WorkerPhase.READY)
    assert all(start.took_s > 0 and start.asked_at_s > 0 for start in told)


async def test_leaving_is_no_failure(rig: Rig) -> None:
    await rig.pool.resize(ask(3))
    await rig.until(settled(3), "three ready workers")

    await rig.pool.resize(ask(0))

    assert (await rig.until(settled(0), "an empty pool")).failures == 0


async def test_workers_that_drain_do_not_count_as_ready(rig: Rig) -> None:
    await rig.pool.resize(ask(2))
    await rig.until(settled(2), "two ready workers")

    await rig.pool.resize(ask(1))

    await rig.until(lambda state: state.ready == 1, "one is draining or gone")
