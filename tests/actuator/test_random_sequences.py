"""Whatever is asked and whoever dies, a pool ends at the size asked for last, once."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from services.actuator import MemoryPool
from services.control.errors import Fenced
from services.control.types import PoolState, WorkerPhase
from tests.actuator.processes import running
from tests.actuator.rigs import HandClock, ask, fake_pool, ids, settled, until

LEAVING = (WorkerPhase.DRAINING, WorkerPhase.FAILED)


@pytest.mark.parametrize("seed", range(200))
async def test_a_memory_pool_obeys_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    clock = HandClock(0.0)
    lifetime_s = chance.choice([None, lambda: chance.expovariate(1 / 30.0)])
    pool = MemoryPool(
        clock, startup_s=lambda: chance.uniform(0.0, 20.0), drain_s=5.0, lifetime_s=lifetime_s, restart_s=0.5
    )
    requested, fence, deaths, ever = 0, 0, 0, set[str]()
    for _ in range(60):
        clock.at_s += chance.uniform(0.0, 10.0)
        state = await pool.observe()
        deaths = check(state, requested=requested, deaths=deaths, ever=ever, seed=seed)
        if chance.random() < 0.2 and state.workers:
            pool.fail(chance.choice(state.workers).id)
        asked_fence = fence + chance.choice([-1, 0, 0, 1])
        size = chance.randint(0, 12)
        remove = tuple(worker.id for worker in state.workers if chance.random() < 0.3)
        if asked_fence < fence:
            with pytest.raises(Fenced):
                await pool.resize(ask(size, fence=asked_fence))
        else:
            await pool.resize(ask(size, fence=asked_fence, remove=remove))
            requested, fence = size, asked_fence
    if lifetime_s is None:
        clock.at_s += 100.0
        assert settled(requested)(await pool.observe()), f"{seed=}"


def check(state: PoolState, *, requested: int, deaths: int, ever: set[str], seed: int) -> int:
    """The laws that hold at any moment; the failures so far come back."""
    names = [worker.id for worker in state.workers]
    assert state.requested == requested, f"{seed=}"
    assert len(names) == len(set(names)), f"{seed=}"
    staying = [worker for worker in state.workers if worker.phase not in LEAVING]
    assert len(staying) <= requested, f"{seed=}: more workers than asked for"
    assert state.failures >= deaths, f"{seed=}: failures were forgotten"
    newest = max((int(name.removeprefix("w-")) for name in ever), default=0)
    fresh = set(names) - ever
    assert all(int(name.removeprefix("w-")) > newest for name in fresh), f"{seed=}: an id came back"
    ever.update(fresh)
    return state.failures


@pytest.mark.parametrize("seed", range(5))
async def test_processes_end_at_the_size_asked_for_last_and_no_other_is_left(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    fence, size = 1, 0
    pools = [fake_pool(tmp_path, owned=False)]
    await pools[0].open()
    for _ in range(12):
        action = chance.choice(["resize", "resize", "kill", "restart", "supersede"])
        if action == "resize":
            size = chance.randint(0, 5)
            await pools[-1].resize(ask(size, fence=fence))
        elif action == "kill":
            for pid in chance.sample(sorted(running(tmp_path).values()), k=min(1, len(running(tmp_path)))):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        elif action == "restart":
            await pools.pop().close(keep_workers=True)
            pools.append(fake_pool(tmp_path, owned=False))
            await pools[-1].open()
        else:
            fence += 1
            pools.append(fake_pool(tmp_path, owned=False))
            await pools[-1].open()
            await pools[-1].resize(ask(size, fence=fence))
        if chance.random() < 0.5:
            leader = pools[-1]
            await until(leader, lambda state: state.ready <= state.requested, "it goes on")

    state = await until(pools[-1], settled(size), f"{size} ready workers ({seed=})")

    assert set(running(tmp_path)) == ids(state, WorkerPhase.READY), f"{seed=}"
    for pool in pools[:-1]:
        await pool.close()
    await pools[-1].close(keep_workers=False)
