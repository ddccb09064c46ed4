"""The process pool as a whole: opening, closing, and what its workers are given."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import psutil
import pytest

from services.actuator import ProcessPool, penstock_worker
from services.actuator.crew import Crew
from services.actuator.run_files import RunFiles
from services.actuator.tending import Tending
from services.control.errors import PoolUnavailable
from services.control.types import WorkerPhase
from tests.actuator.processes import FAKE_WORKER, running
from tests.actuator.rigs import ask, fake_pool, refusal, settled, until
from tests.waiting import eventually, eventually_async


async def test_closing_an_owned_pool_leaves_nothing(tmp_path: Path) -> None:
    async with fake_pool(tmp_path) as pool:
        await pool.resize(ask(3))
        await until(pool, settled(3), "three ready workers")

    assert running(tmp_path) == {}
    assert {path.name for path in (tmp_path / "ads").iterdir()} == {"fence.json", "lock", "logs"}


async def test_closing_kills_who_does_not_leave_in_time(tmp_path: Path) -> None:
    pool = fake_pool(tmp_path, "ignores-sigterm", drain_s=600.0)
    await pool.open()
    await pool.resize(ask(2))
    await until(pool, settled(2), "two ready workers")

    await pool.close(within_s=0.1)

    assert running(tmp_path) == {}


async def test_a_close_that_is_cancelled_kills_at_once(tmp_path: Path) -> None:
    pool = fake_pool(tmp_path, "ignores-sigterm", drain_s=600.0)
    await pool.open()
    await pool.resize(ask(2))
    await until(pool, settled(2), "two ready workers")
    closing = asyncio.create_task(pool.close())
    await eventually_async(lambda: RunFiles(tmp_path / "ads").fence().intent.requested == 0, what="it closes")

    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing

    assert running(tmp_path) == {}


async def test_closing_an_owned_pool_after_its_files_were_lost_still_leaves_nothing(tmp_path: Path) -> None:
    pool = fake_pool(tmp_path)
    await pool.open()
    await pool.resize(ask(2))
    await until(pool, settled(2), "two ready workers")
    (tmp_path / "ads").rename(tmp_path / "elsewhere")

    with pytest.raises(PoolUnavailable):
        await pool.close()

    assert running(tmp_path) == {}


async def test_workers_that_are_not_owned_stay_when_the_pool_closes(tmp_path: Path) -> None:
    async with fake_pool(tmp_path, owned=False) as pool:
        await pool.resize(ask(2))
        await until(pool, settled(2), "two ready workers")
        before = running(tmp_path)
    assert running(tmp_path) == before

    successor = fake_pool(tmp_path, owned=False)
    await successor.open()
    assert settled(2)(await successor.observe())
    await successor.close(keep_workers=False)
    assert running(tmp_path) == {}


async def test_a_pool_closed_for_good_does_not_come_back_by_itself(tmp_path: Path) -> None:
    async with fake_pool(tmp_path) as pool:
        await pool.resize(ask(2, fence=5))
        await until(pool, settled(2), "two ready workers")

    async with fake_pool(tmp_path) as pool:
        assert (await pool.observe()).requested == 0
        await pool.resize(ask(1, fence=5))
        state = await until(pool, settled(1), "one ready worker")
        assert state.workers[0].id == "w-3", "a worker id was used twice"


async def test_a_killed_worker_is_noticed_told_and_replaced(tmp_path: Path) -> None:
    async with fake_pool(tmp_path) as pool:
        await pool.resize(ask(1))
        await until(pool, settled(1), "a ready worker")

        os.kill(running(tmp_path)["w-1"], signal.SIGKILL)

        state = await until(pool, lambda state: state.failures == 1, "the loss is noticed")
        assert state.trouble.startswith("worker w-1 was killed by SIGKILL; ")
        assert (await until(pool, settled(1), "its replacement")).trouble == ""
        assert set(running(tmp_path)) == {"w-2"}


async def test_a_pool_that_is_not_open_is_unavailable(tmp_path: Path) -> None:
    pool = fake_pool(tmp_path)
    with pytest.raises(PoolUnavailable, match="the pool of job ads is not open"):
        await pool.observe()
    with pytest.raises(PoolUnavailable, match="the pool of job ads is not open"):
        await pool.resize(ask(1))


async def test_a_pool_is_opened_once(tmp_path: Path) -> None:
    async with fake_pool(tmp_path) as pool:
        with pytest.raises(RuntimeError, match="already open"):
            await pool.open()


async def test_a_closed_pool_may_be_closed_again_and_opened_again(tmp_path: Path) -> None:
    pool = fake_pool(tmp_path)
    for _ in range(2):
        await pool.open()
        await pool.close()
        await pool.close()


async def test_a_run_dir_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(PoolUnavailable, match=r"file/ads cannot be made: .* mend pool\.run_dir"):
        await fake_pool(tmp_path / "file").open()


async def test_a_lock_that_stays_taken_is_told(tmp_path: Path) -> None:
    async with fake_pool(tmp_path) as pool:
        with RunFiles(tmp_path / "ads").lock():
            with pytest.raises(PoolUnavailable, match="is held by another controller"):
                await pool.resize(ask(1))

            told: str = await eventually_async(lambda: refusal(pool), what="observing it fails, too")
            assert "is held by another controller" in told
        await until(pool, settled(0), "it works again once the lock is free")


async def test_files_damaged_under_a_running_pool_are_told_until_they_are_mended(tmp_path: Path) -> None:
    async with fake_pool(tmp_path) as pool:
        await pool.resize(ask(1))
        await until(pool, settled(1), "a ready worker")
        fence = tmp_path / "ads" / "fence.json"
        whole = fence.read_text()

        fence.write_text("{")

        told: str = await eventually_async(lambda: refusal(pool), what="the damage is noticed")
        assert "fence.json is damaged" in told
        fence.write_text(whole)
        await until(pool, settled(1), "it goes on")


async def test_a_mistake_in_the_supervision_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = fake_pool(tmp_path)
    await pool.open()
    with monkeypatch.context() as broken:
        broken.setattr(Crew, "reconcile", lambda *_: 1 / 0)

        async def raises() -> bool:
            try:
                await pool.observe()
            except ZeroDivisionError:
                return True
            return False

        seen: bool = await eventually_async(raises, what="the mistake is seen")
        assert seen
    with pytest.raises(ZeroDivisionError):
        await pool.close()


async def test_a_pool_leaves_no_thread_and_no_open_file(tmp_path: Path) -> None:
    async with fake_pool(tmp_path):
        pass
    threads, files = threading.active_count(), psutil.Process().num_fds()

    async with fake_pool(tmp_path) as pool:
        await pool.resize(ask(3))
        await until(pool, settled(3), "three ready workers")

    assert (threading.active_count(), psutil.Process().num_fds()) == (threads, files)


async def test_workers_do_not_hold_the_controllers_port(tmp_path: Path) -> None:
    """A web server makes its socket inheritable; a worker that survives would keep the port taken."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.set_inheritable(True)
        async with fake_pool(tmp_path) as pool:
            await pool.resize(ask(1))
            await until(pool, settled(1), "a ready worker")

            assert psutil.Process(running(tmp_path)["w-1"]).net_connections() == []


async def test_workers_are_told_their_names_and_their_files_and_nothing_of_the_controllers_own_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_OWNER_FD", "99")
    monkeypatch.setenv("PENSTOCK_DRAIN_S", "99")
    pool = ProcessPool(
        "ads",
        command=(*FAKE_WORKER, "trains", "--job={job}", "--worker={worker}", '{"json": 1}'),
        env={"COLOUR": "blue"},
        run_dir=tmp_path,
        tending=Tending(drain_s=12.5, poll_s=0.02),
    )
    await pool.open()
    await pool.resize(ask(1))
    await until(pool, settled(1), "a ready worker")

    worker = psutil.Process(running(tmp_path)["w-1"])
    assert worker.cmdline()[-3:] == ["--job=ads", "--worker=w-1", '{"json": 1}']
    assert worker.environ()["PENSTOCK_READY_FILE"] == str(tmp_path / "ads" / "w-1.ready")
    assert worker.environ()["COLOUR"] == "blue"
    assert worker.environ()["PATH"] == os.environ["PATH"]
    assert "PENSTOCK_OWNER_FD" not in worker.environ()
    assert worker.environ()["PENSTOCK_DRAIN_S"] == "12.5"
    await pool.close(keep_workers=False)


async def test_workers_are_out_of_reach_of_a_ctrl_c_at_the_controllers_terminal(tmp_path: Path) -> None:
    async with fake_pool(tmp_path) as pool:
        await pool.resize(ask(1))
        await until(pool, settled(1), "a ready worker")

        (pid,) = running(tmp_path).values()
        assert os.getpgid(pid) != os.getpgid(0)


async def test_a_worker_shows_when_it_was_started_and_where(tmp_path: Path) -> None:
    async with fake_pool(tmp_path) as pool:
        await pool.resize(ask(1))
        state = await until(pool, settled(1), "a ready worker")

        (worker,) = state.workers
        assert worker.node == os.uname().nodename
        assert worker.started_at_s == pytest.approx(
            psutil.Process(running(tmp_path)["w-1"]).create_time(), abs=5
        )


async def test_workers_that_run_and_are_not_ready_do_not_count_as_ready(tmp_path: Path) -> None:
    async with fake_pool(tmp_path, "never-ready") as pool:
        await pool.resize(ask(3))

        state = await until(pool, lambda state: len(state.workers) == 3, "three workers")
        assert (state.requested, state.ready, state.count(WorkerPhase.STARTING)) == (3, 0, 3)


async def test_a_pool_closed_while_workers_start_leaves_nothing(tmp_path: Path) -> None:
    async with fake_pool(tmp_path, "never-ready") as pool:
        await pool.resize(ask(5))
        await until(pool, lambda state: state.count(WorkerPhase.STARTING) == 5, "five that start")

    eventually(lambda: not running(tmp_path), what="nothing is left")


def test_penstocks_own_worker_is_run_by_the_same_python(tmp_path: Path) -> None:
    command = penstock_worker()

    assert command[:4] == (sys.executable, "-m", "services.cli.main", "worker")
    assert command[4:] == ("--job", "{job}", "--worker-id", "{worker}")
    assert penstock_worker(tmp_path / "a.yaml") == (*command, "--config", str(tmp_path / "a.yaml"))
