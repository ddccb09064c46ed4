"""Containers of a Docker engine as a platform for workers."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import structlog

from services.actuator.charge import Charge, NumberedCharge
from services.actuator.docker_engine import Container, ContainerSpec, DockerEngine, EngineRefused, NameTaken
from services.actuator.docker_intents import JOB, KIND, DockerIntents
from services.actuator.intent import Intent
from services.actuator.platform import Exit, NotStarted, Sight, WorkerFacts

READY_FILE = "/tmp/penstock-ready"  # noqa: S108 - inside the worker's own container
WORKER, ASKED_AT, STARTED_AT, STRIKES = (
    f"penstock.{name}" for name in ("worker", "asked-at", "started-at", "strikes")
)
_STARTED_WITHIN_S = 10.0
_ENDED = ("exited", "dead")
_TOLD = re.compile(r"\.(ready|draining|told)-(\d+)")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Seen:
    container: Container
    facts: WorkerFacts


class DockerPlatform:
    """A `Platform` of containers that are known to others by their labels and names.

    What is known of a worker when it starts is in its labels. Those cannot change, names can: what
    comes later is told by the name, `penstock-ads-w-3.ready-1700000042.draining-1700000108`.
    `refresh()` looks at the engine; all else speaks of what was seen then.
    """

    def __init__(self, job: str, spec: ContainerSpec, engine: DockerEngine, intents: DockerIntents) -> None:
        self._job = job
        self._spec = spec
        self._engine = engine
        self._intents = intents
        self._latest = NumberedCharge(0, Charge())
        self._labels = {JOB: job, KIND: "worker"}
        self._seen: dict[str, _Seen] = {}
        self._node = ""
        self._made_since_s: dict[str, float] = {}
        self._log = log.bind(job=job)

    def refresh(self) -> Charge:
        """Look at the engine. The charge comes first: whoever starts a worker after this look has
        used up its id in a later one, so that our own reservation fails."""
        self._latest = self._intents.latest()
        self._node = self._node or self._engine.machine()
        seen = [_Seen(one, _facts(one, self._node)) for one in self._engine.containers(self._labels)]
        seen.sort(key=lambda one: (one.facts.started_at_s, one.facts.id))
        self._seen = {one.facts.id: one for one in seen}
        return self._latest.charge

    def take_charge(self, supervisor: str) -> None:
        """Supervise from now on. Raises IntentMoved when another controller came first."""
        taken = replace(self._latest.charge, supervisor=supervisor)
        self._latest = self._intents.write(taken, after=self._latest.number)

    def found(self) -> tuple[WorkerFacts, ...]:
        """Every worker that has a container."""
        return tuple(one.facts for one in self._seen.values())

    def look(self, workers: Collection[str]) -> Mapping[str, Sight]:
        """How these do."""
        return {worker: self._look(worker) for worker in workers}

    def reserve(self, intent: Intent, count: int) -> Intent:
        """Use up the ids in the engine. Raises IntentMoved when another controller came first."""
        reserved = replace(intent, next_worker=intent.next_worker + count)
        charge = replace(self._latest.charge, intent=reserved)
        self._latest = self._intents.write(charge, after=self._latest.number)
        return reserved

    def start(self, worker: WorkerFacts) -> WorkerFacts:
        """Make its container and let it run. One that was made and not started is found by others."""
        try:
            container = self._create(worker)
            try:
                self._engine.start(container.id)
            except EngineRefused:
                self._engine.remove(container.id)
                raise
        except NameTaken as error:
            raise NotStarted(f"worker {worker.id} could not be started: {error}") from error
        except EngineRefused as error:
            raise NotStarted(f"worker {worker.id} was refused by the engine: {error}") from error
        self._seen[worker.id] = _Seen(container, _facts(container, self._node))
        self._log.info(
            "worker_started", worker=worker.id, container=container.id[:12], strikes=worker.strikes
        )
        return self._seen[worker.id].facts

    def note(self, worker: WorkerFacts) -> None:
        """Tell it by the container's name, which may tell more by now than when we looked."""
        container = self._seen[worker.id].container
        told = _told(self._engine.name(container.id) or container.name)
        merged = replace(
            worker,
            ready_at_s=told.get("ready", worker.ready_at_s),
            draining_at_s=told.get("draining", worker.draining_at_s),
            told_at_s=told.get("told", worker.told_at_s),
        )
        name = _name(self._job, merged)
        self._engine.rename(container.id, name)
        self._seen[worker.id] = _Seen(replace(container, name=name), merged)

    def ask_to_leave(self, worker: str) -> None:
        """SIGTERM to the container's first process."""
        if worker in self._seen:
            self._engine.signal(self._seen[worker].container.id, "SIGTERM")

    def kill(self, worker: str) -> None:
        """SIGKILL: all that runs in the container ends."""
        if worker in self._seen:
            self._engine.signal(self._seen[worker].container.id, "SIGKILL")

    def forget(self, worker: str) -> None:
        """Remove the container; its log goes with it, unless the engine ships logs elsewhere."""
        seen = self._seen.pop(worker, None)
        if seen is not None:
            self._made_since_s.pop(seen.container.id, None)
            self._engine.remove(seen.container.id)

    def last_line(self, worker: str) -> str:
        """The last line that says anything."""
        if worker not in self._seen:
            return ""
        lines = self._engine.last_lines(self._seen[worker].container.id, count=5).split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return "".join(character if character.isprintable() else " " for character in last)[:200]

    def tidy(self, alive: Collection[str]) -> None:
        """The engine bounds its logs itself."""

    def close(self) -> None:
        """Let go of the engine."""
        self._engine.close()

    def _look(self, worker: str) -> Sight:
        seen = self._seen.get(worker)
        if seen is None:  # removed by somebody else
            return Sight(Exit(None))
        container, facts = seen.container, seen.facts
        if container.state in _ENDED:
            code, out_of_memory = self._engine.exit_code(container.id)
            return Sight(Exit(_of_shell(code), out_of_memory))
        if container.state == "created":
            return self._start_made(container)
        return Sight(ready=facts.ready_at_s is not None or self._engine.has_file(container.id, READY_FILE))

    def _start_made(self, container: Container) -> Sight:
        """It was made and does not run: its controller is about to start it, or died before that."""
        since_s = self._made_since_s.setdefault(container.id, time.monotonic())
        if time.monotonic() - since_s < _STARTED_WITHIN_S:
            return Sight()
        try:
            self._engine.start(container.id)
        except EngineRefused as error:
            self._log.warning("worker_not_started", why=str(error), container=container.id[:12])
            return Sight(Exit(None))
        return Sight()

    def _create(self, worker: WorkerFacts) -> Container:
        command = [
            part.replace("{job}", self._job).replace("{worker}", worker.id) for part in self._spec.command
        ]
        labels = {
            **self._labels,
            WORKER: worker.id,
            ASKED_AT: str(worker.asked_at_s),
            STARTED_AT: str(worker.started_at_s),
            STRIKES: str(worker.strikes),
        }
        name = _name(self._job, worker)
        env = {**self._spec.env, "PENSTOCK_READY_FILE": READY_FILE}
        made = self._engine.create(name, self._spec, command=command, env=env, labels=labels)
        return Container(made, name, "running", labels)


def _name(job: str, worker: WorkerFacts) -> str:
    told = {"ready": worker.ready_at_s, "draining": worker.draining_at_s, "told": worker.told_at_s}
    return f"penstock-{job}-{worker.id}" + "".join(
        f".{what}-{at_s:.0f}" for what, at_s in told.items() if at_s is not None
    )


def _told(name: str) -> dict[str, float]:
    """
    >>> _told("penstock-ads-w-3.ready-1700000042.draining-1700000108")
    {'ready': 1700000042.0, 'draining': 1700000108.0}
    """
    return {what: float(at_s) for what, at_s in _TOLD.findall(name)}


def _facts(container: Container, node: str) -> WorkerFacts:
    labels = container.labels
    told = _told(container.name)
    return WorkerFacts(
        id=labels[WORKER],
        asked_at_s=float(labels[ASKED_AT]),
        started_at_s=float(labels[STARTED_AT]),
        ready_at_s=told.get("ready"),
        draining_at_s=told.get("draining"),
        told_at_s=told.get("told"),
        strikes=int(labels[STRIKES]),
        where=f"container {container.id[:12]}",
        node=node,
    )


def _of_shell(code: int | None) -> int | None:
    """Docker, as a shell, adds 128 to the number of the signal that killed a process.

    >>> _of_shell(137), _of_shell(3), _of_shell(None)
    (-9, 3, None)
    """
    return 128 - code if code is not None and 128 < code < 160 else code
