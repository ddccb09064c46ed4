"""The little that the Docker pool needs of the Docker Engine API, with types and our errors."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import docker  # type: ignore[import-untyped]
from docker.errors import APIError, DockerException, NotFound  # type: ignore[import-untyped]
from requests.exceptions import RequestException

from services.control.errors import PoolUnavailable, Rejected


class NameTaken(Exception):
    """Another has made a container of that name."""


class EngineRefused(Rejected):
    """The engine said no: no such image, no such network, no such GPU. The message is the engine's."""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What every worker's container is made from. `{job}` and `{worker}` in the command are filled in."""

    image: str
    command: Sequence[str] = ()
    """The image's own when empty."""
    env: Mapping[str, str] = field(default_factory=dict)
    network: str = ""
    """A network to join, by name, such as compose's; the engine's default when empty."""
    binds: Sequence[str] = ()
    """`HOST_PATH:CONTAINER_PATH[:ro]`"""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Further labels. The pool's own win."""
    gpus: int = 0
    """GPUs for each worker."""
    memory_mib: int | None = None
    """Memory that each may use at most."""
    leaves_within_s: float | None = None
    """What each gets when somebody else stops it: `docker stop`, compose, the engine; its usual when None."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container at one look."""

    id: str
    name: str
    state: str
    """`created`, `running`, `paused`, `restarting`, `removing`, `exited` or `dead`."""
    labels: Mapping[str, str]


class DockerEngine:
    """A typed, blocking client. Raises PoolUnavailable when the engine does not answer."""

    def __init__(self, url: str | None = None, *, timeout_s: float = 30.0) -> None:
        """Reach the engine at `url`; where DOCKER_HOST says, or at its usual socket, without one."""
        where = url or os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        with _translated():
            _knock(where)
            environment = {**os.environ, "DOCKER_HOST": where}
            self._api: Any = docker.from_env(timeout=timeout_s, environment=environment).api

    def close(self) -> None:
        """Let go of the connections."""
        self._api.close()

    def has_image(self, image: str) -> bool:
        """Whether containers can be made from it without pulling."""
        with _unless_gone():
            self._api.inspect_image(image)
            return True
        return False

    def machine(self) -> str:
        """The name of the machine that it runs on."""
        with _translated():
            return str(self._api.info().get("Name", ""))

    def containers(self, labels: Mapping[str, str]) -> tuple[Container, ...]:
        """All with these labels, stopped ones included."""
        with _translated():
            seen = self._api.containers(all=True, filters={"label": _pairs(labels)})
        return tuple(
            Container(one["Id"], one["Names"][0].lstrip("/"), one["State"], one["Labels"] or {})
            for one in seen
            if one["Names"]  # one that is being removed may have lost its name already
        )

    def create(
        self,
        name: str,
        spec: ContainerSpec,
        *,
        command: Sequence[str],
        env: Mapping[str, str],
        labels: Mapping[str, str],
    ) -> str:
        """Make a container and tell its id; it does not run yet. Raises NameTaken and EngineRefused."""
        gpus = [docker.types.DeviceRequest(count=spec.gpus, capabilities=[["gpu"]])] if spec.gpus else None
        with _translated(taken=NameTaken):
            host = self._api.create_host_config(
                binds=list(spec.binds) or None,
                network_mode=spec.network or None,
                device_requests=gpus,
                mem_limit=None if spec.memory_mib is None else f"{spec.memory_mib}m",
                init=True,  # a first process that passes signals on and reaps what workers leave
            )
            made = self._api.create_container(
                spec.image,
                command=list(command) or None,
                name=name,
                environment=dict(env),
                labels={**spec.labels, **labels},
                host_config=host,
                stop_timeout=None if spec.leaves_within_s is None else ceil(spec.leaves_within_s),
            )
        return str(made["Id"])

    def start(self, container: str) -> None:
        """Let it run; nothing happens to one that does. Raises EngineRefused."""
        with _translated():
            self._api.start(container)

    def name(self, container: str) -> str:
        """Its name now; empty when it is gone."""
        with _unless_gone():
            return str(self._api.inspect_container(container)["Name"]).lstrip("/")
        return ""

    def rename(self, container: str, name: str) -> None:
        """Give it another name; nothing happens to one that has it already, or is gone."""
        if self.name(container) == name:
            return
        with _unless_gone():
            self._api.rename(container, name)

    def signal(self, container: str, name: str) -> None:
        """Send its first process a signal; nothing happens to one that has ended."""
        with _unless_gone():
            self._api.kill(container, signal=name)

    def remove(self, container: str) -> None:
        """End it if it runs, and clear it away with its anonymous volumes."""
        with _unless_gone():
            self._api.remove_container(container, force=True, v=True)

    def exit_code(self, container: str) -> tuple[int | None, bool]:
        """The code it ended with, None when it is gone, and whether it was killed for want of memory."""
        with _unless_gone():
            state = self._api.inspect_container(container)["State"]
            return int(state["ExitCode"]), bool(state["OOMKilled"])
        return None, False

    def last_lines(self, container: str, *, count: int) -> str:
        """The end of what it wrote to stdout and stderr."""
        with _unless_gone():
            written: bytes = self._api.logs(container, tail=count)
            return written.decode("utf-8", errors="replace")
        return ""

    def has_file(self, container: str, path: str) -> bool:
        """Whether the file is there in the container. Needs nothing of the image, not even a shell."""
        with _unless_gone():
            content, _ = self._api.get_archive(container, path)
            _drain(content)
            return True
        return False

    def volumes(self, labels: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
        """Labels by name, of all volumes with these labels."""
        with _translated():
            seen = self._api.volumes(filters={"label": _pairs(labels)})["Volumes"] or []
        return {one["Name"]: one["Labels"] or {} for one in seen}

    def create_volume(self, name: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Make a volume. One of that name that is there already stays as it is: its labels come back."""
        with _translated():
            made = self._api.create_volume(name, labels=dict(labels))
            return dict(self._api.inspect_volume(made["Name"])["Labels"] or {})

    def remove_volume(self, name: str) -> None:
        """Nothing happens to one that is gone."""
        with _unless_gone():
            self._api.remove_volume(name)


def _knock(where: str) -> None:
    """Fail early at a socket where nobody answers: docker's own client would leave it open."""
    scheme, _, path = where.partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.connect(path)


def _pairs(labels: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in labels.items()]


def _drain(content: Iterator[bytes]) -> None:
    for _ in content:
        pass


@contextmanager
def _translated(*, taken: Callable[[str], Exception] | None = None) -> Iterator[None]:
    try:
        yield
    except APIError as error:
        if error.status_code == 409 and taken is not None:
            raise taken(str(error.explanation)) from error
        if error.is_server_error():
            raise PoolUnavailable(f"the Docker engine failed: {error.explanation}") from error
        raise EngineRefused(str(error.explanation)) from error
    except (DockerException, RequestException, OSError) as error:
        raise PoolUnavailable(
            f"the Docker engine does not answer: {error}; is it running, and may this user reach its socket?"
        ) from error


@contextmanager
def _unless_gone() -> Iterator[None]:
    """For what is pointless once the container or volume is gone, or has ended."""
    try:
        with _translated():
            yield
    except EngineRefused as error:
        cause = error.__cause__
        if not isinstance(cause, APIError) or not (isinstance(cause, NotFound) or cause.status_code == 409):
            raise
