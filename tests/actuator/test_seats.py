"""Workers are started towards the nodes that a resize names, and towards none where it names none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from services.actuator.backoff import Backoff
from services.actuator.crew import Crew
from services.actuator.intent import Intent
from services.actuator.moment import Moment
from services.actuator.platform import Exit, Sight, WorkerFacts

NOW = Moment(wall_s=50_000.0, steady_s=100.0)


@dataclass
class Nodes:
    """A platform that has room everywhere, and does as it is told but for `full` nodes."""

    full: frozenset[str] = frozenset()
    workers: dict[str, WorkerFacts] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)

    def found(self) -> tuple[WorkerFacts, ...]:
        return tuple(self.workers.values())

    def look(self, workers: Collection[str]) -> Mapping[str, Sight]:
        return {name: self._sight(self.workers[name]) for name in list(workers)}

    def _sight(self, facts: WorkerFacts) -> Sight:
        if facts.id in self.gone:
            return Sight(Exit(1))
        return Sight(ready=True, node="elsewhere" if facts.node in self.full else facts.node)

    def reserve(self, intent: Intent, count: int) -> Intent:
        return replace(intent, next_worker=intent.next_worker + count)

    def start(self, worker: WorkerFacts) -> WorkerFacts:
        self.workers[worker.id] = worker
        return worker

    def note(self, worker: WorkerFacts) -> None:
        self.workers[worker.id] = worker

    def ask_to_leave(self, worker: str) -> None: ...

    def kill(self, worker: str) -> None: ...

    def forget(self, worker: str) -> None:
        del self.workers[worker]

    def last_line(self, worker: str) -> str:
        return ""

    def tidy(self, alive: Collection[str]) -> None: ...


def crew_on(nodes: Nodes) -> Crew:
    return Crew("ads", nodes, backoff=Backoff(first_s=0.0, longest_s=0.0), drain_s=30.0)


def seats(nodes: Nodes) -> list[str]:
    return sorted(facts.node for facts in nodes.workers.values())


def test_workers_are_started_where_there_are_too_few() -> None:
    nodes = Nodes()
    crew = crew_on(nodes)
    crew.reconcile(Intent(requested=2, nodes=("n1", "n1")), NOW)
    assert seats(nodes) == ["n1", "n1"]

    crew.reconcile(Intent(requested=4, nodes=("n1", "n1", "n2", "n2"), next_worker=3), NOW)

    assert seats(nodes) == ["n1", "n1", "n2", "n2"]


def test_one_that_comes_in_the_place_of_another_comes_to_its_node() -> None:
    nodes = Nodes()
    crew, intent = crew_on(nodes), Intent(requested=3, nodes=("n1", "n2", "n2"))
    intent = crew.reconcile(intent, NOW)
    nodes.gone.add(next(facts.id for facts in nodes.workers.values() if facts.node == "n1"))

    crew.reconcile(intent, NOW)

    assert seats(nodes) == ["n1", "n2", "n2"]


def test_more_workers_than_nodes_are_named_for_are_the_platforms_to_place() -> None:
    nodes = Nodes()
    crew_on(nodes).reconcile(Intent(requested=3, nodes=("n1",)), NOW)

    assert seats(nodes) == ["", "", "n1"]


def test_a_worker_is_where_it_runs_wherever_it_should_have_come() -> None:
    nodes = Nodes(full=frozenset({"n1"}))
    crew, intent = crew_on(nodes), Intent(requested=1, nodes=("n1",))
    intent = crew.reconcile(intent, NOW)
    crew.reconcile(intent, NOW)

    assert [worker.node for worker in crew.workers()] == ["elsewhere"]
