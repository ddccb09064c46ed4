"""Who is in a Kubernetes pool, who was lost unasked, and how long each took to become ready. No I/O."""

from __future__ import annotations

from collections.abc import Callable

from services.actuator.kubernetes_pods import Pod
from services.actuator.lead_time import LeadTime, LeadTimes
from services.actuator.moment import Moment
from services.control.types import Worker, WorkerPhase

_JUDGED_AFTER_S = 1.0
"""Pods and target are watched apart: by then the smaller size that explains a departure is known."""
_CREATED_WITHIN_S = 60.0
"""A pod made within this time of a growth is taken to be part of it."""
_JUST_MADE_S = 2.0


class Roster:
    """Told of every change of a pod and of every size asked for, by whoever it was.

    A smaller size explains as many departures as there are pods beyond it; every other departure
    (a crash, an eviction, a node that went away, a hand) is a loss.
    """

    def __init__(self, now: Callable[[], Moment] = Moment.now) -> None:
        self.lead_times = LeadTimes()
        self._failures = 0
        self._now = now
        self._live: dict[str, float] = {}
        self._size: int | None = None
        self._grown_at_s = 0.0
        self._explained = 0
        self._departed_s: list[float] = []
        self._rolled_s = float("-inf")

    def rolls(self) -> None:
        """A new version is being rolled out now: pods go because of that."""
        self._rolled_s = self._now().steady_s

    def asked(self, size: int) -> None:
        """The target's size is now `size`."""
        if size == self._size:
            return
        now = self._now()
        if self._size is None or size > self._size:
            self._grown_at_s = now.wall_s
            self._judge(self._departed_s)
        self._size = size
        self._explained = max(0, len(self._live) + len(self._departed_s) - size)

    def changed(self, before: Pod | None, after: Pod | None) -> None:
        """A pod came, changed or went."""
        pod = after or before
        if pod is None:
            return
        if after is None or after.ended or after.phase is WorkerPhase.DRAINING:
            if pod.uid in self._live:
                del self._live[pod.uid]
                self._departed_s.append(self._now().steady_s)
            return
        self._live.setdefault(after.uid, self._started_at_s(after))
        if before is not None:
            self._failures += max(0, after.restarts - before.restarts)
            if after.phase is WorkerPhase.READY and before.phase is WorkerPhase.STARTING:
                self._welcome(after)

    def shown(self, pod: Pod) -> Worker:
        """As the port shows it."""
        started_at_s = self._live.get(pod.uid, pod.created_at_s)
        return Worker(pod.name, pod.phase, started_at_s, gpu_type=pod.gpu_type, node=pod.node)

    def failures(self, *, rolling: bool) -> int:
        """Workers lost unasked so far. While a new version is rolled out, pods go because of that, and the
        last of them may be judged after it has ended."""
        if rolling:
            self.rolls()
        now_s = self._now().steady_s
        due = [at_s for at_s in self._departed_s if now_s - at_s >= _JUDGED_AFTER_S]
        self._judge(due)
        return self._failures

    def _started_at_s(self, pod: Pod) -> float:
        """When it was made. Kubernetes tells whole seconds, rounded down: ours is finer when we saw it."""
        now_s = self._now().wall_s
        return now_s if 0 <= now_s - pod.created_at_s < _JUST_MADE_S else pod.created_at_s

    def _judge(self, due: list[float]) -> None:
        replaced = sum(at_s <= self._rolled_s + _JUDGED_AFTER_S for at_s in due)
        self._explained = max(self._explained, replaced)
        explained = min(self._explained, len(due))
        self._explained -= explained
        self._failures += len(due) - explained
        self._departed_s = self._departed_s[len(due) :]

    def _welcome(self, pod: Pod) -> None:
        """Its lead time counts from the growth that it is part of; a replacement's, from its making."""
        now_s = self._now().wall_s
        # Creation is told in whole seconds, rounded down.
        part_of_it = -1.0 <= pod.created_at_s - self._grown_at_s <= _CREATED_WITHIN_S
        asked_at_s = self._grown_at_s if part_of_it else pod.created_at_s
        if not pod.restarts:
            self.lead_times.note(LeadTime(pod.name, asked_at_s, max(0.001, now_s - asked_at_s)))
