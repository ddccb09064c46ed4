"""A Docker pool of fake workers, where an engine is at hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from uuid import uuid4

from services.actuator.backoff import Backoff
from services.actuator.docker_engine import ContainerSpec, DockerEngine
from services.actuator.docker_platform import READY_FILE
from services.actuator.docker_pool import DockerPool
from services.actuator.tending import Tending
from services.control.types import PoolState
from tests.actuator.rigs import until
from tests.servers import docker
from tests.waiting import eventually_async

IMAGE = "python:3.11-slim"


@cache
def lacking() -> str:
    """What keeps the Docker tests from running here, and what to do; empty when nothing does."""
    return docker.lacking(IMAGE) or ""


def fake_spec(*how: str, image: str = IMAGE) -> ContainerSpec:
    """Containers of fake workers that do as `how` says."""
    script = Path(__file__).with_name("fake_worker.py")
    command = ("python3", "-S", "-E", "/fake_worker.py", *how)
    return ContainerSpec(image, command, binds=(f"{script}:/fake_worker.py:ro",))


@dataclass
class DockerRig:
    """Docker pools of one job that nobody else has."""

    job: str = field(default_factory=lambda: f"test-{uuid4().hex[:8]}")
    engine: DockerEngine = field(default_factory=DockerEngine)

    def __post_init__(self) -> None:
        self.pool = self.another()

    def another(self, *how: str, image: str = IMAGE, drain_s: float = 600.0) -> DockerPool:
        """One more pool on the same job, not open yet."""
        tending = Tending(drain_s, Backoff(first_s=0.1, longest_s=1.0), poll_s=0.1)
        return DockerPool(self.job, fake_spec(*how, image=image), tending=tending)

    async def until(self, condition: Callable[[PoolState], bool], what: str) -> PoolState:
        return await until(self.pool, condition, what, within_s=90.0)

    def containers(self) -> dict[str, str]:
        """Container id by worker, of those that run."""
        seen = self.engine.containers({"penstock.job": self.job})
        return {one.labels["penstock.worker"]: one.id for one in seen if one.state == "running"}

    def kill(self, worker: str) -> None:
        self.engine.signal(self.containers()[worker], "SIGKILL")

    async def say_ready(self, worker: str) -> None:
        """Wait until the worker has made its file."""
        container = self.containers()[worker]
        await eventually_async(lambda: self.engine.has_file(container, READY_FILE), what="its file")

    def clear(self) -> None:
        """Leave nothing in the engine."""
        for container in self.engine.containers({"penstock.job": self.job}):
            self.engine.remove(container.id)
        for volume in self.engine.volumes({"penstock.job": self.job}):
            self.engine.remove_volume(volume)
        self.engine.close()


@asynccontextmanager
async def docker_rig(*how: str) -> AsyncIterator[DockerRig]:
    """A rig with its pool open, and nothing left of it afterwards."""
    rig = DockerRig()
    rig.pool = rig.another(*how)
    try:
        async with rig.pool:
            yield rig
    finally:
        rig.clear()
