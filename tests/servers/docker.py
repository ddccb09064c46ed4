"""Servers in containers, through testcontainers, where a Docker engine with the image is at hand."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from services.embedded.ports import LOOPBACK, free_ports

_ASK_WITHIN_S = 10.0
_READY_WITHIN_S = 120
_KAFKA_PORT = 9092


def lacking(image: str) -> str | None:
    """What to install before a container of this image can run; None when nothing is missing.

    Nothing is pulled: tests must not wait for the network unasked.
    """
    program = shutil.which("docker")
    if program is None:
        return f"Docker is not installed; install it and `docker pull {image}`"
    if not _succeeds(program, "info"):
        return "no Docker engine answers; start it (Debian: systemctl start docker)"
    if not _succeeds(program, "image", "inspect", image):
        return f"the image {image} is not at hand; `docker pull {image}`"
    return None


def _succeeds(program: str, *arguments: str) -> bool:
    try:
        asked = subprocess.run([program, *arguments], capture_output=True, timeout=_ASK_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


@contextmanager
def kafka_container(image: str) -> Iterator[str]:
    """An Apache Kafka of one broker; its bootstrap address.

    The port on this machine is chosen beforehand, because the broker must advertise it.
    """
    _settle_testcontainers()
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    port = free_ports(1)[0]
    container = DockerContainer(image).with_bind_ports(_KAFKA_PORT, port)
    for name, value in _kafka_settings(port).items():
        container.with_env(name, value)
    container.waiting_for(
        LogMessageWaitStrategy("Kafka Server started").with_startup_timeout(_READY_WITHIN_S)
    )
    with container:
        yield f"{LOOPBACK}:{port}"


@contextmanager
def redis_container(image: str) -> Iterator[str]:
    """A Redis; its URL."""
    _settle_testcontainers()
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    port = free_ports(1)[0]
    container = DockerContainer(image).with_bind_ports(6379, port)
    container.waiting_for(LogMessageWaitStrategy("Ready to accept connections").with_startup_timeout(60))
    with container:
        yield f"redis://{LOOPBACK}:{port}/0"


def _settle_testcontainers() -> None:
    """Defaults that need no further image and no network but loopback; the caller's win."""
    for name, value in {
        "TESTCONTAINERS_RYUK_DISABLED": "true",
        "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
        "TC_HOST": LOOPBACK,
    }.items():
        os.environ.setdefault(name, value)


def _kafka_settings(port: int) -> dict[str, str]:
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": f"PLAINTEXT://:{_KAFKA_PORT},CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{LOOPBACK}:{port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    }
