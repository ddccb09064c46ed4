"""The Docker pool against a real engine: what its containers and its controllers do to each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.actuator import docker_platform
from services.actuator.charge import Charge
from services.actuator.docker_engine import DockerEngine
from services.actuator.docker_intents import DockerIntents
from services.actuator.docker_platform import DockerPlatform
from services.actuator.docker_pool import DockerPool
from services.actuator.intent import Intent
from services.actuator.platform import WorkerFacts
from services.actuator.tending import Tending
from services.control.errors import Fenced, PoolUnavailable
from services.control.types import WorkerPhase
from tests.actuator.containers import DockerRig, docker_rig, fake_spec, lacking
from tests.actuator.rigs import ask, ids, refusal, settled, until
from tests.waiting import eventually_async

pytestmark = pytest.mark.containers


@pytest.fixture
async def rig() -> AsyncIterator[DockerRig]:
    if lacking():
        pytest.skip(lacking())
    async with docker_rig() as made:
        yield made


async def test_containers_survive_their_controller_and_are_adopted(rig: DockerRig) -> None:
    await rig.pool.resize(ask(2))
    before = await rig.until(settled(2), "two ready workers")
    containers = rig.containers()
    await rig.pool.close()
    assert rig.containers() == containers

    async with rig.another() as successor:
        assert await successor.observe() == before
        assert rig.containers() == containers
        assert successor.lead_times() == (), "their start was told once"


async def test_containers_carry_further_labels_and_intents_can_be_kept_elsewhere(
    rig: DockerRig, tmp_path: Path
) -> None:
    """As compose wants them: what it does not know of, `down -v` leaves behind."""
    labels = {"com.docker.compose.project": rig.job, "penstock.job": "the pool's own wins"}
    spec = replace(fake_spec(), labels=labels, memory_mib=64)
    async with DockerPool(rig.job, spec, intents_dir=tmp_path, tending=Tending(poll_s=0.1)) as pool:
        await pool.resize(ask(1))
        before = await until(pool, settled(1), "one ready worker", within_s=90.0)

    async with DockerPool(rig.job, spec, intents_dir=tmp_path, tending=Tending(poll_s=0.1)) as successor:
        assert await successor.observe() == before
    (container,) = rig.engine.containers({"com.docker.compose.project": rig.job})
    assert container.labels["penstock.job"] == rig.job
    assert rig.engine.volumes({"penstock.job": rig.job}) == {}


async def test_a_container_that_was_made_and_not_started_is_started_by_the_successor(
    rig: DockerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a controller that was killed in between."""
    monkeypatch.setattr(docker_platform, "_STARTED_WITHIN_S", 0.2)
    intents = DockerIntents(rig.engine, rig.job)
    platform = DockerPlatform(rig.job, fake_spec(), rig.engine, intents)
    intents.write(Charge(Intent(requested=1)), after=0)
    platform.reserve(platform.refresh().intent, 1)
    platform._create(WorkerFacts("w-1", asked_at_s=1_000.0, started_at_s=1_000.0))

    async with rig.another() as successor:
        state = await until(successor, settled(1), "one ready worker", within_s=90.0)

    assert ids(state, WorkerPhase.READY) == {"w-1"}
    assert set(rig.containers()) == {"w-1"}


async def test_a_container_removed_by_hand_is_counted_and_replaced(rig: DockerRig) -> None:
    await rig.pool.resize(ask(1))
    await rig.until(settled(1), "one ready worker")

    rig.engine.remove(rig.containers()["w-1"])

    await rig.until(lambda state: state.failures == 1, "the loss is noticed")
    state = await rig.until(settled(1), "its replacement")
    assert ids(state, WorkerPhase.READY) == {"w-2"}


async def test_a_worker_that_ignores_sigterm_is_killed_after_its_time(rig: DockerRig) -> None:
    async with rig.another("ignores-sigterm", drain_s=0.5) as pool:
        await pool.resize(ask(1))
        await until(pool, settled(1), "one ready worker", within_s=90.0)

        await pool.resize(ask(0))

        assert (await until(pool, settled(0), "an empty pool", within_s=90.0)).failures == 0


async def test_whoever_else_stops_a_container_gives_it_the_same_time(rig: DockerRig) -> None:
    async with rig.another(drain_s=12.5) as pool:
        await pool.resize(ask(1))
        await until(pool, settled(1), "one ready worker", within_s=90.0)

        config = rig.engine._api.inspect_container(rig.containers()["w-1"])["Config"]

    assert config["StopTimeout"] == 13
    assert "PENSTOCK_DRAIN_S=12.5" in config["Env"]


async def test_draining_is_told_by_the_containers_name_to_every_controller(rig: DockerRig) -> None:
    async with rig.another("ignores-sigterm") as pool:
        await pool.resize(ask(1))
        await until(pool, settled(1), "one ready worker", within_s=90.0)
        await pool.resize(ask(0))
        await until(pool, lambda state: state.count(WorkerPhase.DRAINING) == 1, "it drains", within_s=90.0)

    async with rig.another("ignores-sigterm") as successor:
        assert ids(await successor.observe(), WorkerPhase.DRAINING) == {"w-1"}
        rig.kill("w-1")
        assert (await until(successor, settled(0), "an empty pool", within_s=90.0)).failures == 0


async def test_two_controllers_end_at_the_size_of_the_newer_one(rig: DockerRig) -> None:
    async with rig.another() as newer:
        await rig.pool.resize(ask(1, fence=1))
        await newer.resize(ask(3, fence=2))

        with pytest.raises(Fenced):
            await rig.pool.resize(ask(5, fence=1))

        state = await until(newer, settled(3), "three ready workers", within_s=90.0)
        assert (len(rig.containers()), state.failures) == (3, 0)


async def test_controllers_that_both_look_all_the_time_still_end_at_one_size(rig: DockerRig) -> None:
    """As they do for a moment when the lead changes; here for as long as the pool moves."""
    async with rig.another() as other:
        await rig.pool.resize(ask(4))

        async def agreed() -> bool:
            seen = [await pool.observe() for pool in (rig.pool, other)]
            assert all(settled(4)(state) for state in seen), seen
            return True

        await eventually_async(agreed, what="both see four ready workers", within_s=90.0)
        assert len(rig.containers()) == 4


async def test_a_crash_loop_is_told_with_the_workers_last_words(rig: DockerRig) -> None:
    async with rig.another("dies-at-start") as pool:
        await pool.resize(ask(1))

        state = await until(pool, lambda state: state.failures >= 2, "the second death", within_s=90.0)

        assert "exited with code 3 before it was ready" in state.trouble
        assert state.trouble.endswith("last log line: cannot find the topic")


async def test_a_killed_worker_is_told_by_its_signal(rig: DockerRig) -> None:
    await rig.pool.resize(ask(1))
    await rig.until(settled(1), "one ready worker")

    rig.kill("w-1")

    state = await rig.until(lambda state: state.failures == 1, "the loss is noticed")
    assert "worker w-1 was killed by SIGKILL" in state.trouble


async def test_an_image_that_is_not_there_is_told_in_the_engines_words(rig: DockerRig) -> None:
    async with rig.another(image="penstock-no-such-image:1") as pool:
        await pool.resize(ask(1))

        state = await until(pool, lambda state: bool(state.trouble), "the trouble", within_s=90.0)

        assert "was refused by the engine" in state.trouble
        assert "penstock-no-such-image" in state.trouble
        assert (state.failures, rig.containers()) == (0, {})


async def test_an_engine_that_stops_answering_is_told_until_it_answers(
    rig: DockerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.pool.resize(ask(1))
    await rig.until(settled(1), "one ready worker")

    def silent(*_: object) -> object:
        raise PoolUnavailable("the Docker engine does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(DockerEngine, "containers", silent)
        told: str = await eventually_async(lambda: refusal(rig.pool), what="it is noticed")
        assert "the Docker engine does not answer" in told
    await rig.until(settled(1), "it goes on")


async def test_closing_for_good_leaves_no_container(rig: DockerRig) -> None:
    async with rig.another("ignores-sigterm") as pool:
        await pool.resize(ask(2))
        await until(pool, settled(2), "two ready workers", within_s=90.0)

        await pool.close(keep_workers=False, within_s=0.1)

    assert rig.engine.containers({"penstock.job": rig.job}) == ()


async def test_no_engine_is_told_when_the_pool_is_opened() -> None:
    pool = DockerPool("ads", fake_spec(), connect=lambda: DockerEngine("unix:///no/such/socket"))

    with pytest.raises(PoolUnavailable, match=r"the Docker engine does not answer: .* is it running"):
        await pool.open()


async def test_a_pool_that_is_not_open_is_unavailable() -> None:
    with pytest.raises(PoolUnavailable, match="the pool of job ads is not open"):
        await DockerPool("ads", fake_spec()).observe()
