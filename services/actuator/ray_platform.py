"""Actors of a Ray cluster as a platform for workers."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from pydantic import TypeAdapter

from services.actuator.charge import Charge, NumberedCharge
from services.actuator.intent import Intent
from services.actuator.launcher import WorkerCommand
from services.actuator.platform import Exit, Sight, WorkerFacts
from services.actuator.ray_actors import DemandKeeper, KeeperSight, WorkerKeeper
from services.actuator.ray_charges import RayCharges
from services.actuator.ray_cluster import RayCluster, towards
from services.actuator.ray_nodes import GPU_TYPE_RESOURCE, named

_FACTS = TypeAdapter(WorkerFacts)
_SEEN_WITHIN_S = 0.3
_ENDED_WITHIN_S = 2.0
_WAITS_AFTER_S = 5.0
"""An actor that has not answered for this long, and was never known to be ready, waits for room."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ActorSpec:
    """What every worker is: a command, and what of the cluster it holds."""

    command: Sequence[str]
    """With `{job}` and `{worker}` filled in."""
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: float = 1.0
    """May be a part of one."""
    cpus: float = 1.0
    gpu_type: str = ""
    """As Ray names it; any when empty."""

    @property
    def resources(self) -> dict[str, float]:
        """Of the node's own resources, a trace of the one that stands for its type of GPU."""
        return {f"{GPU_TYPE_RESOURCE}{self.gpu_type}": 0.001} if self.gpu_type else {}

    @property
    def bundle(self) -> dict[str, float]:
        """What one worker needs, in the autoscaler's words."""
        needed = {"GPU": self.gpus, "CPU": self.cpus, **self.resources}
        return {name: amount for name, amount in needed.items() if amount > 0}


@dataclass(frozen=True, slots=True)
class _Question:
    """What an actor was asked, and when."""

    ref: Any
    at_s: float


class RayPlatform:
    """A `Platform` of actors, each with the process of one worker beside it.

    Facts of workers are with the keeper of the record, since an actor that waits for a GPU cannot be
    asked anything: a worker whose actor does not answer is one that has not started yet.
    """

    def __init__(self, job: str, spec: ActorSpec, cluster: RayCluster, charges: RayCharges) -> None:
        self._job = job
        self._spec = spec
        self._cluster = cluster
        self._charges = charges
        self._latest = NumberedCharge(0, Charge())
        self._demand = cluster.keeper("penstock-demand", DemandKeeper, num_cpus=0, max_restarts=-1)
        self._demanded = -1
        self._facts: dict[str, WorkerFacts] = {}
        self._actors: dict[str, Any] = {}
        self._asked: dict[str, _Question] = {}
        self._sights: dict[str, KeeperSight | None] = {}
        """None is an actor that is gone."""
        self._names: dict[str, str] = {}
        """By Ray's id of a node, what the fleet calls it."""
        self._log = log.bind(job=job)

    def refresh(self) -> Charge:
        """Look at the charge, the record and the actors; ask the autoscaler when the size has changed."""
        self._latest = self._charges.latest()
        told = self._cluster.answer(self._charges.record.facts.remote(), "the record")
        facts = [_FACTS.validate_json(content) for content in told.values()]
        self._facts = {one.id: one for one in sorted(facts, key=lambda one: (one.started_at_s, one.id))}
        for worker in self._facts.keys() - self._actors.keys():
            self._actors[worker] = self._cluster.found(self._name(worker))
        self._see()
        self._want(self._latest.charge.intent.requested)
        return self._latest.charge

    def take_charge(self, supervisor: str) -> None:
        """Supervise from now on. Raises IntentMoved when another controller came first."""
        taken = replace(self._latest.charge, supervisor=supervisor)
        self._latest = self._charges.write(taken, after=self._latest.number)

    def found(self) -> tuple[WorkerFacts, ...]:
        """Every worker on record."""
        return tuple(self._facts.values())

    def look(self, workers: Collection[str]) -> Mapping[str, Sight]:
        """How these did when the cluster was looked at."""
        return {worker: self._look(worker) for worker in workers}

    def reserve(self, intent: Intent, count: int) -> Intent:
        """Use up the ids on the cluster. Raises IntentMoved when another controller came first."""
        reserved = replace(intent, next_worker=intent.next_worker + count)
        charge = replace(self._latest.charge, intent=reserved)
        self._latest = self._charges.write(charge, after=self._latest.number)
        return reserved

    def start(self, worker: WorkerFacts) -> WorkerFacts:
        """Put it on record, then ask for its actor; it waits there until the cluster has room."""
        name = self._name(worker.id)
        facts = replace(worker, where=f"actor {name}", gpu_type=self._spec.gpu_type)
        self.note(facts)
        spec = self._spec
        command = WorkerCommand(self._job, spec.command, spec.env).line(worker.id)
        self._actors[worker.id] = self._cluster.keeper(
            name,
            WorkerKeeper,
            command,
            dict(spec.env),
            num_gpus=spec.gpus,
            num_cpus=spec.cpus,
            resources=spec.resources,
            **self._strategy(worker.node),
        )
        self._log.info("worker_started", worker=worker.id, actor=name, strikes=worker.strikes)
        return facts

    def note(self, worker: WorkerFacts) -> None:
        """Put it on record as it is now."""
        content = _FACTS.dump_json(worker).decode()
        self._cluster.answer(self._charges.record.note.remote(worker.id, content), "the record")
        self._facts[worker.id] = worker

    def ask_to_leave(self, worker: str) -> None:
        """SIGTERM; an actor that still waits for room has nobody to tell, and ends.

        Which of the two it is takes a moment to know when it was started by another controller: one that
        trains, and may hold leases, is not ended for being slow to answer.
        """
        actor = self._actors.get(worker)
        if actor is None:
            return
        if self._sights.get(worker) is not None or self._facts[worker].ready_at_s is not None:
            actor.leave.remote()
        elif worker not in self._asked or time.monotonic() - self._asked[worker].at_s > _WAITS_AFTER_S:
            self._cluster.end(actor)

    def kill(self, worker: str) -> None:
        """SIGKILL to all that runs, then the end of the actor."""
        # One that was on record before its actor was made may have one by now.
        actor = self._actors.get(worker) or self._cluster.found(self._name(worker))
        if actor is not None:
            if self._sights.get(worker) is not None:
                self._cluster.answered([actor.end.remote()], within_s=_ENDED_WITHIN_S)
            self._cluster.end(actor)

    def forget(self, worker: str) -> None:
        """End the actor, which gives its resources back, and clear the record."""
        self.kill(worker)
        self._facts.pop(worker, None)
        self._actors.pop(worker, None)
        self._asked.pop(worker, None)
        self._sights.pop(worker, None)
        self._cluster.answer(self._charges.record.forget.remote(worker), "the record")

    def last_line(self, worker: str) -> str:
        """The last that it said before it ended."""
        sight = self._sights.get(worker)
        return "" if sight is None else sight.last_line

    def tidy(self, alive: Collection[str]) -> None:
        """Ray clears away what ended actors leave."""

    def close(self) -> None:
        """The connection stays: other pools of this process may use it."""

    def _name(self, worker: str) -> str:
        return f"penstock-{self._job}-{worker}"

    def _strategy(self, node: str) -> dict[str, object]:
        """Towards one node, if that is there and has room; else wherever Ray finds some."""
        if not node:
            return {}
        found = named(self._cluster.nodes()).get(node)
        return {} if found is None else {"scheduling_strategy": towards(found["NodeID"])}

    def _node_of(self, sight: KeeperSight) -> str:
        """As the fleet names it; by its host where it has no GPUs."""
        if sight.node_id not in self._names:
            self._names |= {about["NodeID"]: name for name, about in named(self._cluster.nodes()).items()}
        return self._names.setdefault(sight.node_id, sight.node)

    def _see(self) -> None:
        """Questions stay with their actors until they are answered: one that waits for room answers late."""
        for worker in self._facts:
            actor = self._actors.get(worker)
            if actor is not None and worker not in self._asked:
                self._asked[worker] = _Question(actor.sight.remote(), time.monotonic())
        waiting = {question.ref: worker for worker, question in self._asked.items()}
        for ref in self._cluster.answered(list(waiting), within_s=_SEEN_WITHIN_S):
            worker = waiting[ref]
            del self._asked[worker]
            self._sights[worker] = self._cluster.sight(ref)

    def _look(self, worker: str) -> Sight:
        if self._actors.get(worker) is None:
            return Sight(Exit(None))  # on record, and its actor was never made or is gone
        if worker not in self._sights:
            return Sight()
        sight = self._sights[worker]
        if sight is None:
            return Sight(Exit(None))
        ended = None if sight.code is None else Exit(sight.code)
        return Sight(ended, ready=sight.ready, node=self._node_of(sight))

    def _want(self, workers: int) -> None:
        if workers != self._demanded:
            bundles = [self._spec.bundle] * workers if self._spec.bundle else []
            self._cluster.answer(self._demand.want.remote(self._job, bundles), "the autoscaler")
            self._demanded = workers
