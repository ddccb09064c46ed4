"""`penstock embedded`: prints where the servers are, stays up, ends with everything."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import typer
from confluent_kafka.admin import AdminClient
from redis import Redis
from typer.testing import CliRunner

from services.cli.embedded import embedded
from tests.embedded import needs
from tests.embedded.owner import ROOT, assert_nothing_remains
from tests.waiting import eventually

app = typer.Typer()
app.command()(embedded)


@contextmanager
def running(*options: str, lines: int) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """The command in a process of its own, and the addresses it printed."""
    command = [sys.executable, "-m", "services.cli.embedded", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        printed = [process.stdout.readline().strip() for _ in range(lines)]
        yield process, dict(line.split("=", 1) for line in printed)
    finally:
        process.kill()
        process.communicate()


def remains_of(process: subprocess.Popen[str], addresses: dict[str, str]) -> dict[str, object]:
    """What must be gone once the command has ended."""
    places = [*addresses["kafka"].split(","), addresses["redis"].removesuffix("/0")]
    with Redis.from_url(addresses["redis"], decode_responses=True) as client:
        directory = client.config_get("dir")["dir"]
    return {
        "pids": [child.pid for child in psutil.Process(process.pid).children(recursive=True)],
        "ports": [int(place.rpartition(":")[2]) for place in places],
        "directory": directory,
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_the_addresses_and_ends_cleanly_on_a_signal(number: signal.Signals) -> None:
    with running("--brokers", "2", "--topic", "clicks:3", "--topic", "views:1", lines=2) as (process, at):
        assert list(at) == ["kafka", "redis"]
        topics = AdminClient({"bootstrap.servers": at["kafka"]}).list_topics(timeout=20).topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"clicks": 3, "views": 1}
        remains = remains_of(process, at)

        process.send_signal(number)

        assert process.wait(30) == 0
        assert_nothing_remains(remains)


def test_killing_it_leaves_nothing() -> None:
    with running(lines=2) as (process, at):
        remains = remains_of(process, at)

        process.kill()

        assert_nothing_remains(remains)


def test_a_redis_that_is_killed_comes_back_with_its_data() -> None:
    with running(lines=2) as (process, at), Redis.from_url(at["redis"]) as client:
        client.set("kept", "yes")
        first = client.info("server")["process_id"]

        os.kill(first, signal.SIGKILL)
        assert process.stderr is not None
        said = [process.stderr.readline(), process.stderr.readline()]

        assert said[1] == "Redis had died; started again with its data\n"
        assert eventually(lambda: client.get("kept"), what="the data") == b"yes"
        assert client.info("server")["process_id"] != first


def test_without_redis_only_kafka_is_printed() -> None:
    with running("--no-redis", lines=1) as (process, at):
        assert list(at) == ["kafka"]
        assert psutil.Process(process.pid).children() == []


@pytest.mark.timeout(300)
@needs.apache
def test_apache_kafka_can_be_asked_for() -> None:
    with running("--kafka", "apache", "--topic", "clicks:2", "--no-redis", lines=1) as (process, at):
        assert "clicks" in AdminClient({"bootstrap.servers": at["kafka"]}).list_topics(timeout=20).topics
        children = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]

        process.terminate()

        assert process.wait(30) == 0
        assert_nothing_remains({"pids": children, "ports": [int(at["kafka"].rpartition(":")[2])]})


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--topic", "clicks"], "'clicks': want NAME:PARTITIONS"),
        (["--topic", "clicks:0"], "'clicks:0': want NAME:PARTITIONS"),
        (["--topic", "sp ace:1"], "'sp ace:1': want NAME:PARTITIONS"),
        (["--topic", "a:1", "--topic", "a:2"], "a is given twice"),
        (["--kafka", "apache", "--brokers", "2"], "1 or 3 brokers, not 2"),
        (["--kafka", "redpanda"], "redpanda"),
        (["--brokers", "0"], "--brokers"),
    ],
)
def test_a_mistake_in_the_options_is_named(options: list[str], complaint: str) -> None:
    run = CliRunner().invoke(app, options, env={"COLUMNS": "300", "TERM": "dumb"})

    assert run.exit_code == 2
    assert complaint in run.stderr


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, "-m", "services.cli.embedded", "--redis-port", str(port)]

        run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)

    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.startswith(
        f"penstock embedded: Redis cannot listen on 127.0.0.1:{port}: the port is taken."
    )


def test_missing_java_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "services.cli.embedded", "--kafka", "apache", "--no-redis"]
    bare = {"PATH": str(tmp_path), "HOME": str(tmp_path)}

    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=bare, timeout=60, check=False)

    assert run.returncode == 1
    assert "Java is not installed; install a JRE of version 17 or newer" in run.stderr
