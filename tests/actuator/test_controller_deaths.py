"""Controllers that end, die or are superseded: the pool ends at the right size, once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from services.actuator.run_files import RunDirBusy, RunFiles
from services.control.errors import Fenced
from services.control.types import WorkerPhase
from tests.actuator.processes import Stranger, running
from tests.actuator.rigs import ask, fake_pool, ids, settled, until
from tests.waiting import eventually, eventually_async

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Start]:
    """Starts controllers on the test's directory, and ends those that still run."""
    started: list[subprocess.Popen[str]] = []

    def start(sizes: str, *, owned: bool = False, moment: str = "", call: int = 1) -> subprocess.Popen[str]:
        script = (sys.executable, "-m", "tests.actuator.controller", str(tmp_path))
        how = ("owned" if owned else "survived", sizes, moment, str(call))
        child = subprocess.Popen((*script, *how), stdout=subprocess.PIPE, text=True)
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def asked(child: subprocess.Popen[str]) -> None:
    """Wait until the controller has asked for its last size. What it logs comes before."""
    assert child.stdout is not None
    assert "asked\n" in child.stdout, "the controller ended before it had asked"


def kill(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.wait()


def stop_between_passes(child: subprocess.Popen[str], run_dir: Path) -> None:
    """Stop the controller where it does not hold the lock, so that others can go on."""

    def stopped() -> bool:
        os.kill(child.pid, signal.SIGSTOP)
        eventually(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED, what="it stops")
        try:
            with RunFiles(run_dir / "ads").lock():
                return True
        except RunDirBusy:
            os.kill(child.pid, signal.SIGCONT)
            return False

    eventually(stopped, what="the controller is stopped between two passes")


async def test_workers_survive_a_killed_controller_and_are_adopted(tmp_path: Path, controller: Start) -> None:
    first = controller("1:3,1:3")
    asked(first)
    before = running(tmp_path)
    kill(first)
    assert running(tmp_path) == before

    async with fake_pool(tmp_path) as pool:
        state = await pool.observe()
        assert settled(3)(state), state
        assert (state.failures, state.trouble) == (0, "")
        assert running(tmp_path) == before


async def test_a_worker_that_died_with_its_controller_is_counted_and_replaced(
    tmp_path: Path, controller: Start
) -> None:
    first = controller("1:2,1:2")
    asked(first)
    kill(first)
    victim = running(tmp_path)["w-1"]
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: not psutil.pid_exists(victim), what="the system has cleared it away")

    async with fake_pool(tmp_path) as pool:
        assert (await pool.observe()).failures == 1
        state = await until(pool, settled(2), "two ready workers")
        assert ids(state, WorkerPhase.READY) == {"w-2", "w-3"}


async def test_sigterm_during_a_resize_leaves_a_directory_from_which_the_successor_goes_on(
    tmp_path: Path, controller: Start
) -> None:
    first = controller("1:2,1:5")
    asked(first)
    first.terminate()
    assert first.wait(timeout=60) == 0

    async with fake_pool(tmp_path) as pool:
        state = await until(pool, settled(5), "five ready workers")
        assert state.failures == 0
        assert set(running(tmp_path)) == {f"w-{number}" for number in range(1, 6)}


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("moment", ["before the pass", "before the start", "before the note", "at the gate"])
async def test_a_controller_killed_while_it_grows_the_pool(
    tmp_path: Path, controller: Start, moment: str, call: int
) -> None:
    first = controller("1:1,1:3", moment=moment, call=call)
    assert first.wait(timeout=60) == -signal.SIGKILL, "it did not come to that moment"

    async with fake_pool(tmp_path) as pool:
        state = await until(pool, settled(3), "three ready workers")
        assert len(ids(state, WorkerPhase.READY)) == 3
        await eventually_async(
            lambda: set(running(tmp_path)) == ids(state, WorkerPhase.READY),
            what="whoever waited at the dead one's gate has ended",
        )


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize(
    "moment", ["before the pass", "before the note", "before the signal", "before it is forgotten"]
)
async def test_a_controller_killed_while_it_shrinks_the_pool(
    tmp_path: Path, controller: Start, moment: str, call: int
) -> None:
    first = controller("1:4,1:2", moment=moment, call=call)
    assert first.wait(timeout=60) == -signal.SIGKILL, "it did not come to that moment"

    async with fake_pool(tmp_path) as pool:
        state = await until(pool, settled(2), "two ready workers")
        assert set(running(tmp_path)) == ids(state, WorkerPhase.READY) == {"w-1", "w-2"}
        assert state.failures == 0


async def test_owned_workers_end_when_their_owner_is_killed(tmp_path: Path, controller: Start) -> None:
    owner = controller("1:3,1:3", owned=True)
    asked(owner)
    assert len(running(tmp_path)) == 3

    kill(owner)

    eventually(lambda: not running(tmp_path), what="no worker outlives its owner")


async def test_owned_workers_end_when_their_owner_is_killed_while_it_starts_them(
    tmp_path: Path, controller: Start
) -> None:
    owner = controller("1:3,1:6", owned=True, moment="at the gate", call=2)
    assert owner.wait(timeout=60) == -signal.SIGKILL

    eventually(lambda: not running(tmp_path), what="no worker outlives its owner")


async def test_of_two_controllers_the_one_with_the_newer_fence_acts(tmp_path: Path) -> None:
    async with fake_pool(tmp_path) as old, fake_pool(tmp_path) as new:
        await old.resize(ask(2, fence=1))
        await until(old, settled(2), "two ready workers")

        await new.resize(ask(3, fence=2))

        with pytest.raises(Fenced):
            await old.resize(ask(1, fence=1))
        state = await until(new, settled(3), "three ready workers")
        assert set(running(tmp_path)) == ids(state, WorkerPhase.READY)
        seen_by_old = await until(old, settled(3), "the old one sees what the new one did")
        assert ids(seen_by_old, WorkerPhase.READY) == ids(state, WorkerPhase.READY)


async def test_a_worker_lost_under_two_controllers_is_replaced_once(tmp_path: Path) -> None:
    async with fake_pool(tmp_path) as standby, fake_pool(tmp_path) as leader:
        await leader.resize(ask(2, fence=1))
        await until(leader, settled(2), "two ready workers")

        os.kill(running(tmp_path)["w-1"], signal.SIGKILL)

        state = await until(leader, lambda state: state.failures == 1 and settled(2)(state), "replaced")
        assert set(running(tmp_path)) == ids(state, WorkerPhase.READY) == {"w-2", "w-3"}
        assert (await standby.observe()).failures == 0, "the standby counts nothing that it did not supervise"


async def test_a_stopped_leader_is_superseded_and_does_no_harm_when_it_wakes(
    tmp_path: Path, controller: Start
) -> None:
    leader = controller("1:2,1:2")
    asked(leader)
    stop_between_passes(leader, tmp_path)
    async with fake_pool(tmp_path) as successor:
        await successor.resize(ask(1, fence=2))
        await until(successor, settled(1), "one ready worker")

        os.kill(leader.pid, signal.SIGCONT)
        leader.terminate()
        assert leader.wait(timeout=60) == 0

        state = await successor.observe()
        assert settled(1)(state), state
        assert set(running(tmp_path)) == {"w-1"}


async def test_a_superseded_controller_still_reaps_its_children(tmp_path: Path, controller: Start) -> None:
    leader = controller("1:2,1:2")
    asked(leader)
    children = psutil.Process(leader.pid).children
    assert len(children()) == 2

    async with fake_pool(tmp_path) as successor:
        await successor.resize(ask(0, fence=2))
        await until(successor, settled(0), "an empty pool")

        await eventually_async(lambda: not children(), what="neither a worker nor a zombie is left")


async def test_a_pid_that_now_belongs_to_a_stranger_is_left_alone(tmp_path: Path, controller: Start) -> None:
    first = controller("1:1,1:1")
    asked(first)
    kill(first)
    (pid,) = running(tmp_path).values()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not psutil.pid_exists(pid), what="the worker is gone")
    stranger = Stranger()
    note = tmp_path / "ads" / "w-1.json"
    note.write_text(note.read_text().replace(f'"pid": {pid}', f'"pid": {stranger.pid}'))

    async with fake_pool(tmp_path) as pool:
        assert (await pool.observe()).failures == 1
        await until(pool, settled(1), "one ready worker")
        await pool.resize(ask(0, fence=1))
        await until(pool, settled(0), "an empty pool")

    assert stranger.answers(), "a process that is none of ours was signalled"
    stranger.end()
