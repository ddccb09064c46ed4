"""No server outlives its owner, whoever of the three processes dies first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.embedded import guardian
from services.embedded.errors import NotRunning, StartFailed
from services.embedded.guarded import GuardedProcess
from tests.embedded import needs
from tests.embedded.owner import assert_nothing_remains, gone, owning
from tests.waiting import eventually

SLEEP = ["sleep", "600"]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[GuardedProcess]:
    """A server that sleeps."""
    guarded = GuardedProcess(SLEEP, log=tmp_path / "log")
    guarded.start()
    yield guarded
    guarded.stop()


def guard(*command: str) -> subprocess.Popen[bytes]:
    """The guardian as the documentation says to run it."""
    arguments = [sys.executable, "-m", "services.embedded.guardian", "--", *command]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 128 + 9), ("exit 0", 0)])
def test_the_guardian_ends_with_the_exit_code_of_its_server(script: str, code: int) -> None:
    with guard("/bin/sh", "-c", script) as guarding:
        assert guarding.wait(20) == code


def test_the_guardian_needs_only_the_standard_library() -> None:
    alone = [sys.executable, "-I", "-S", guardian.__file__, "--", "true"]

    assert subprocess.run(alone, input=b"", timeout=20, check=False).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_guardian_passes_signals_on(number: signal.Signals, tmp_path: Path) -> None:
    script = "trap 'echo told; exit 3' TERM INT; echo ready; while :; do sleep 0.05; done"
    process = GuardedProcess(["/bin/sh", "-c", script], log=tmp_path / "log")
    process.start()
    eventually(lambda: process.log_tail() == "ready", what="the trap set")

    os.kill(process.guardian_pid, number)

    assert process.wait(within_s=20) == 3
    assert process.log_tail() == "ready\ntold"
    process.stop()


def test_stopping_ends_the_server_and_removes_its_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "deep").mkdir(parents=True)
    process = GuardedProcess(SLEEP, log=tmp_path / "log", remove=[data])
    process.start()

    process.stop()

    assert gone(process.pid)
    assert not process.alive
    assert not data.exists()


def test_a_server_deaf_to_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    deaf = ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"]
    process = GuardedProcess(deaf, log=tmp_path / "log", grace_s=0.2)
    process.start()
    eventually(lambda: process.log_tail() == "ready", what="the trap set")

    process.stop()

    assert gone(process.pid)


def test_what_the_server_started_ends_with_it(tmp_path: Path) -> None:
    process = GuardedProcess(["/bin/sh", "-c", "sleep 600 & echo $!; wait"], log=tmp_path / "log")
    process.start()
    grandchild = int(eventually(process.log_tail, what="the grandchild's pid"))

    process.stop()

    eventually(lambda: gone(grandchild), what="the end of the grandchild")


def test_a_server_that_dies_leaves_its_directory_to_the_owner(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    process = GuardedProcess(SLEEP, log=tmp_path / "log", remove=[data])
    process.start()

    os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: not process.alive, what="the guardian's end")

    assert process.exit_code == 128 + signal.SIGKILL
    assert data.exists()
    process.start()
    assert process.alive
    process.stop()
    assert not data.exists()


@needs.linux
def test_a_server_dies_with_a_guardian_that_is_killed(process: GuardedProcess) -> None:
    os.kill(process.guardian_pid, signal.SIGKILL)

    eventually(lambda: gone(process.pid), what="the server's end")
    assert not process.alive


def test_ctrl_c_reaches_the_owner_alone(process: GuardedProcess) -> None:
    """The terminal signals a process group; the owner ends its servers in its own order."""
    groups = {os.getpgid(0), os.getpgid(process.guardian_pid), os.getpgid(process.pid)}

    assert len(groups) == 3


def test_a_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    process = GuardedProcess(SLEEP, log=tmp_path / "log")
    thread = threading.Thread(target=process.start)
    thread.start()
    thread.join()

    # A parent-death signal comes at once when the thread ends; a second server's whole life is later.
    other = GuardedProcess(["true"], log=tmp_path / "other")
    other.start()
    other.wait(within_s=20)
    other.stop()

    assert process.alive
    assert not gone(process.pid)
    process.stop()


def test_a_killed_owner_takes_its_server_and_directory_along(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    script = f"""
        from pathlib import Path
        from services.embedded.guarded import GuardedProcess
        process = GuardedProcess({SLEEP!r}, log=Path({str(tmp_path / "log")!r}), remove=[Path({str(data)!r})])
        process.start()
        tell(pids=[process.pid, process.guardian_pid], directory={str(data)!r})
    """
    with owning(script) as (owner, facts):
        assert not gone(facts["pids"][0])

        owner.kill()

        assert_nothing_remains(facts)


def test_a_forked_child_does_not_keep_the_server_of_a_killed_owner(tmp_path: Path) -> None:
    script = f"""
        from pathlib import Path
        from services.embedded.guarded import GuardedProcess
        process = GuardedProcess({SLEEP!r}, log=Path({str(tmp_path / "log")!r}))
        process.start()
        forked = os.fork()
        if forked == 0:
            signal.pause()
        tell(pids=[process.pid, process.guardian_pid], forked=forked)
    """
    with owning(script) as (owner, facts):
        owner.kill()
        try:
            assert_nothing_remains(facts)
            assert not gone(facts["forked"])
        finally:
            os.kill(facts["forked"], signal.SIGKILL)


def test_a_command_that_cannot_run_is_named(tmp_path: Path) -> None:
    process = GuardedProcess(["/no/such/server"], log=tmp_path / "log")

    with pytest.raises(StartFailed, match="cannot run /no/such/server: No such file or directory"):
        process.start()
    assert not process.alive


def test_a_process_never_started_has_no_pid(tmp_path: Path) -> None:
    process = GuardedProcess(SLEEP, log=tmp_path / "log")

    assert not process.alive
    assert process.log_tail() == ""
    with pytest.raises(NotRunning, match="sleep was not started"):
        _ = process.pid
    process.stop()
