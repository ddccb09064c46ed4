"""Workers' logs stay readable and bounded."""

from __future__ import annotations

import os
from pathlib import Path

from services.actuator.worker_logs import WorkerLogs


def write(logs: WorkerLogs, worker: str, content: bytes) -> None:
    descriptor = logs.open(worker)
    os.write(descriptor, content)
    os.close(descriptor)


def test_the_last_line_that_says_anything_is_told(tmp_path: Path) -> None:
    logs = WorkerLogs(tmp_path)
    write(logs, "w-1", b"first\nsecond \x1b[31mred\xff\n\n  \n")

    assert logs.last_line("w-1") == "second  [31mred\N{REPLACEMENT CHARACTER}"


def test_a_long_last_line_is_cut(tmp_path: Path) -> None:
    logs = WorkerLogs(tmp_path)
    write(logs, "w-1", b"x" * 100_000)

    assert logs.last_line("w-1") == "x" * 200


def test_a_silent_worker_has_no_last_line(tmp_path: Path) -> None:
    logs = WorkerLogs(tmp_path)
    write(logs, "w-1", b"\n")

    assert (logs.last_line("w-1"), logs.last_line("w-2")) == ("", "")


def test_a_log_that_grows_too_long_is_cut_while_its_worker_writes_on(tmp_path: Path) -> None:
    logs = WorkerLogs(tmp_path, bytes_max=10)
    held_by_worker = logs.open("w-1")
    os.write(held_by_worker, b"0123456789abcdef")

    logs.trim(["w-1"])
    os.write(held_by_worker, b"ghi")
    os.close(held_by_worker)

    assert logs.path("w-1").read_bytes() == b"ghi"
    assert (tmp_path / "w-1.log.1").read_bytes() == b"6789abcdef"


def test_a_log_within_its_size_is_left_alone(tmp_path: Path) -> None:
    logs = WorkerLogs(tmp_path, bytes_max=10)
    write(logs, "w-1", b"0123456789")

    logs.trim(["w-1", "w-2"])

    assert logs.path("w-1").read_bytes() == b"0123456789"


def test_logs_of_workers_long_gone_are_removed(tmp_path: Path) -> None:
    logs = WorkerLogs(tmp_path, keep=2, bytes_max=1)
    for number in range(6):
        write(logs, f"w-{number}", b"some words")
        logs.trim([f"w-{number}"])
        os.utime(logs.path(f"w-{number}"), ns=(number, number))

    logs.prune(alive={"w-0"})

    assert {path.name for path in tmp_path.glob("*.log")} == {"w-0.log", "w-4.log", "w-5.log"}
    assert {path.name for path in tmp_path.glob("*.1")} == {"w-0.log.1", "w-4.log.1", "w-5.log.1"}
