"""What a Ray pool does when the cluster's head is lost: with Ray's fault tolerance, and without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.control.errors import Fenced, PoolUnavailable
from services.control.types import PoolResize, PoolState, WorkerPhase
from services.embedded.ports import free_ports
from services.embedded.redis import EmbeddedRedis
from tests.actuator import actors
from tests.actuator.actors import RayRig
from tests.actuator.rigs import ask, ids, refusal, settled, until
from tests.waiting import eventually_async

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(bool(actors.lacking()), reason="needs ray"),
]

PROGRAM = Path(__file__).with_name("ray_head.py")


class Head:
    """A cluster of a head and one node with GPUs, and power over the head."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._said, self._heard = process.stdin, process.stdout
        self.address = self._heard.readline().strip()

    def say(self, word: str) -> None:
        self._said.write(f"{word}\n")
        self._said.flush()
        assert self._heard.readline() == "done\n"


@contextmanager
def a_head(port: int, *, redis: EmbeddedRedis | None = None) -> Iterator[Head]:
    """The head keeps what it knows in `redis`, where there is one."""
    kept = {} if redis is None else {"RAY_REDIS_ADDRESS": f"127.0.0.1:{redis.port}"}
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **kept},
        text=True,
    )
    with process:
        try:
            yield Head(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


async def asked(rig: RayRig, request: PoolResize) -> None:
    """Ask until it is heard, as a loop does: a cluster takes its time to begin, or to be back."""

    async def heard() -> bool:
        try:
            await rig.pool.resize(request)
        except PoolUnavailable:
            return False
        return True

    await eventually_async(heard, within_s=180.0, what="the cluster answers")


async def test_with_fault_tolerance_a_head_that_restarts_costs_no_worker() -> None:
    (port,) = free_ports(1)
    with EmbeddedRedis() as redis, a_head(port, redis=redis) as head:
        rig = RayRig(head.address)
        async with rig.pool:
            await asked(rig, ask(2, fence=5))
            before = ids(await rig.until(settled(2), "two ready workers"), WorkerPhase.READY)

            head.say("go")
            head.say("come back")
            await asked(rig, ask(3, fence=6))
            state = await rig.until(settled(3), "one more")
            assert before < ids(state, WorkerPhase.READY)
            assert state.failures == 0
            with pytest.raises(Fenced):
                await rig.pool.resize(ask(9, fence=5))
            await rig.pool.close(keep_workers=False, within_s=5.0)


async def test_without_it_the_loss_is_told_and_the_pool_begins_anew_with_the_next_head() -> None:
    (port,) = free_ports(1)
    with a_head(port) as head:
        rig = RayRig(head.address)
        await rig.pool.open()
        await asked(rig, ask(2, fence=5))
        await rig.until(settled(2), "two ready workers")
    try:
        told: str = await eventually_async(lambda: refusal(rig.pool), within_s=180.0, what="the loss")
        assert "Ray" in told
        with a_head(port) as head:

            def forgotten(state: PoolState) -> bool:
                return state.requested == 0 and not state.workers

            await until(rig.pool, forgotten, "a cluster that knows of nothing", within_s=240.0)
            await asked(rig, ask(2, fence=5))
            await rig.until(settled(2), "two ready workers")
            await rig.pool.close(keep_workers=False, within_s=5.0)
    finally:
        await rig.pool.close()
