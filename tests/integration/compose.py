"""The stack of docker-compose.yml, run for a test under a project name of its own."""

from __future__ import annotations

import json
import os
import re
import runpy
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from services.embedded.ports import free_ports
from services.traffic.shape import DAY_S
from tests.integration.running import ROOT, printed
from tests.servers.docker import lacking

IMAGES = {
    "KAFKA_IMAGE": os.environ.get("PENSTOCK_TEST_KAFKA_IMAGE") or "apache/kafka:4.1.1",
    "REDIS_IMAGE": os.environ.get("PENSTOCK_TEST_REDIS_IMAGE") or "redis:7",
    "PROMETHEUS_IMAGE": os.environ.get("PENSTOCK_TEST_PROMETHEUS_IMAGE") or "prom/prometheus:latest",
}
START_HOUR: float = runpy.run_path(str(ROOT / "deploy" / "compose" / "day.py"))["START_S"] % DAY_S / 3600
_SAMPLE = re.compile(r"^(?P<name>penstock_\w+)(?P<labels>\{.*\})? (?P<value>\S+)", re.MULTILINE)


def lacking_for_compose() -> str | None:
    """What keeps the stack from running here; None when nothing does."""
    return next((why for image in ("python:3.11-slim", *IMAGES.values()) if (why := lacking(image))), None)


@dataclass(frozen=True)
class DayClock:
    """How late it is in the synthetic day of deploy/compose/day.py."""

    began_at_s: float
    speed_up: float

    def hour(self) -> float:
        """A number of hours; it goes on after midnight."""
        return START_HOUR + (time.time() - self.began_at_s) * self.speed_up / 3600


class Stack:
    """One run of the stack. `down()` removes what compose knows of; `remains()` tells what it left."""

    def __init__(self) -> None:
        self.project = f"penstock-test-{uuid4().hex[:8]}"
        ports = free_ports(3)
        self.page, self.operations, self.prometheus = (f"http://127.0.0.1:{port}" for port in ports)
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")},
            **IMAGES,
            "COMPOSE_PROFILES": "core,load,observability",
            "PENSTOCK_IMAGE": "penstock:test",
            "PENSTOCK_PORT": str(ports[0]),
            "PENSTOCK_OPERATIONS_PORT": str(ports[1]),
            "PROMETHEUS_PORT": str(ports[2]),
        }
        self._intents_before = self._intents()

    def compose(self, *arguments: str, within_s: float = 300) -> str:
        """What `docker compose` prints. Raises AssertionError with its complaint."""
        files = ("-f", "docker-compose.yml", "-f", "tests/integration/quick-day.yml")
        return self._run("docker", "compose", "-p", self.project, *files, *arguments, within_s=within_s)

    def down(self) -> None:
        """As a user ends it. Compose gives up when a worker that it saw leaves meanwhile: then once more."""
        try:
            self.compose("down", "-v")
        except AssertionError as error:
            if "No such container" not in str(error):
                raise
            self.compose("down", "-v")

    def workers(self) -> list[str]:
        """The containers of workers that run."""
        return self._found("ps", "-q", service="worker")

    def metrics(self) -> dict[str, float]:
        """Values by name and labels, as `/metrics` shows them; none while nobody listens."""
        try:
            text = self.get(f"{self.operations}/metrics").decode()
        except OSError:
            return {}
        return {
            found["name"] + (found["labels"] or ""): float(found["value"]) for found in _SAMPLE.finditer(text)
        }

    def status(self, address: str, **headers: str) -> int:
        """The status of a GET."""
        try:
            with urllib.request.urlopen(
                urllib.request.Request(address, headers=headers), timeout=10
            ) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code

    def get(self, address: str) -> bytes:
        with urllib.request.urlopen(address, timeout=10) as answer:
            body: bytes = answer.read()
        return body

    def clock(self) -> DayClock:
        """The clock of the synthetic day that is being played."""
        noted = self.compose("exec", "-T", "traffic", "sh", "-c", 'cat "$DAY_BEGAN"; echo " $SPEED_UP"')
        began_at_s, speed_up = noted.split()
        return DayClock(float(began_at_s), float(speed_up))

    def ask_prometheus(self, query: str) -> list[dict[str, Any]]:
        """The instant vector that answers `query`. Raises HTTPError for one that Prometheus does not take."""
        asked = urllib.parse.urlencode({"query": query})
        answer = json.loads(self.get(f"{self.prometheus}/api/v1/query?{asked}"))
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def rules(self) -> dict[str, str]:
        """Whether Prometheus could evaluate each rule, by the rule's name."""
        answer = json.loads(self.get(f"{self.prometheus}/api/v1/rules"))
        return {rule["name"]: rule["health"] for group in answer["data"]["groups"] for rule in group["rules"]}

    def remains(self) -> list[str]:
        """Containers, volumes and networks of this project, those of the pool included."""
        return [
            *self._found("ps", "-aq"),
            *self._found("volume", "ls", "-q"),
            *self._found("network", "ls", "-q"),
            *(self._intents() - self._intents_before),
        ]

    def clear(self) -> None:
        """Leave nothing, whatever went wrong."""
        self.compose("down", "-v", "--remove-orphans", "--timeout", "5")
        for container in self._found("ps", "-aq"):
            self._run("docker", "rm", "-fv", container)

    def _intents(self) -> set[str]:
        """Volumes that a pool without `intents_dir` would make: they carry no label of compose."""
        return set(self._run("docker", "volume", "ls", "-q", "--filter", "label=penstock.job=clicks").split())

    def _found(self, *what: str, service: str = "") -> list[str]:
        labels = [f"label=com.docker.compose.project={self.project}"]
        if service:
            labels.append(f"label=com.docker.compose.service={service}")
        filters = [part for label in labels for part in ("--filter", label)]
        return self._run("docker", *what, *filters).split()

    def _run(self, *command: str, within_s: float = 120) -> str:
        return printed(*command, env=self._env, within_s=within_s)
