"""A process is known by more than its pid."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from services.actuator import worker_process
from services.actuator.platform import Exit
from services.actuator.worker_process import WorkerProcess, process_of
from tests.actuator.processes import Stranger
from tests.waiting import eventually


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits to be killed, in a session of its own."""
    waits = (sys.executable, "-S", "-c", "import signal; signal.pause()")
    with subprocess.Popen(waits, start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture(params=["/proc", "psutil"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to look at a process. Elsewhere than on Linux there is only one."""
    if request.param == "psutil" or sys.platform != "linux":
        monkeypatch.setattr(worker_process, "_look", worker_process._look_with_psutil)


def seen(child: subprocess.Popen[bytes]) -> WorkerProcess:
    process = process_of(child.pid)
    assert process is not None
    return process


def test_a_process_is_the_same_at_every_look(child: subprocess.Popen[bytes]) -> None:
    assert process_of(child.pid) == process_of(child.pid)
    assert process_of(child.pid) != process_of(os.getpid())


def test_a_pid_that_nobody_has_is_no_process(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()

    assert process_of(child.pid) is None


def test_a_child_that_ended_tells_its_code_once(child: subprocess.Popen[bytes]) -> None:
    process = seen(child)
    assert process.poll() is None
    assert process.alive()

    process.kill()

    assert eventually(process.poll, what="it ends") == Exit(-9)
    assert process.poll() == Exit(None)
    assert not process.alive()


def test_a_zombie_is_not_alive(child: subprocess.Popen[bytes]) -> None:
    process = seen(child)

    child.kill()

    eventually(lambda: not process.alive(), what="it is a zombie")
    assert process_of(child.pid) == process, "it is still there to be reaped"


def test_a_stranger_with_the_same_pid_is_left_alone() -> None:
    stranger = Stranger()
    gone = WorkerProcess(stranger.pid, identity="an earlier one")

    assert gone.poll() == Exit(None)
    gone.ask_to_leave()
    gone.kill()
    gone.sweep()

    assert stranger.answers()
    assert stranger.end() == -9


def test_an_exit_code_that_belongs_to_a_stranger_is_left_to_its_parent(
    child: subprocess.Popen[bytes],
) -> None:
    process = seen(child)
    child.kill()
    eventually(lambda: not process.alive(), what="it is a zombie")

    WorkerProcess(child.pid, identity="an earlier one").poll()

    assert child.wait() == -9
