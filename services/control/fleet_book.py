"""What every job told the fleet last, and the sums over it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import floor

from estimator.fleet import JobId
from services.control.fleet_told import Told
from services.control.fleet_wish import Word


class FleetBook:
    """Sums are kept as words come in: a thousand jobs must not add a million numbers a tick."""

    def __init__(self, there: Mapping[str, int]) -> None:
        self.there = there
        """GPUs of each type."""
        self.batch: dict[str, float] = {}
        """GPUs of each type that are with the batch pool."""
        self.batch_most: dict[str, float] = {}
        """GPUs of each type that it has use for, where standbys are lent to it too."""
        self._told: dict[str, Told] = {}
        self._needed: dict[str, float] = defaultdict(float)
        self._kept: dict[str, float] = defaultdict(float)
        self._wished: dict[str, float] = defaultdict(float)

    def __iter__(self) -> Iterator[Told]:
        return iter(self._told.values())

    def __bool__(self) -> bool:
        return bool(self._told)

    def names(self) -> list[str]:
        """Of the jobs that have spoken."""
        return sorted(self._told)

    def of(self, job: str) -> Told | None:
        """The last word of a job; None for one that has not spoken."""
        return self._told.get(job)

    def said(self, job: str) -> Told:
        """The last word of a job that has spoken."""
        return self._told[job]

    def tell(self, job: str, told: Told | None) -> None:
        """Take in a job's word, or its silence."""
        for one, sign in ((self._told.pop(job, None), -1), (told, 1)):
            if one is not None:
                mine, wished = one.word.kind, one.gpus_wished()
                for kind, gpus in one.gpus_kept().items():
                    self._kept[kind] += sign * gpus
                    self._needed[kind] += sign * (max(gpus, wished) if kind == mine else gpus)
                self._wished[mine] += sign * wished
        if told is not None:
            self._told[job] = told

    @property
    def latest_s(self) -> float | None:
        """When somebody spoke last; None where nobody has."""
        return max((told.word.decision.at_s for told in self), default=None)

    def ids(self) -> set[JobId]:
        """Of the jobs that have spoken."""
        return {told.id for told in self}

    def contended(self) -> bool:
        """Whether more is wished of a type than there is."""
        return any(wished > self.there.get(kind, 0) for kind, wished in self._wished.items())

    def wished(self, gpu_type: str) -> float:
        """GPUs of a type that the jobs on it would take."""
        return self._wished[gpu_type]

    def free(self, job: str, gpu_type: str) -> float:
        """GPUs of a type that a job could have beside what the others keep; its own are among them."""
        mine = self._told[job].gpus_kept().get(gpu_type, 0.0)
        return self.there.get(gpu_type, 0) - (self._kept[gpu_type] - mine) - self.batch.get(gpu_type, 0.0)

    def room(self, word: Word, gpu_type: str) -> int:
        """The same in workers."""
        return max(0, floor(self.free(word.decision.job, gpu_type) / word.standing.gpus_per_worker))

    def being_left(self, gpu_type: str) -> float:
        """GPUs of a type whose jobs are on their way to another."""
        return sum(told.word.standing.gpus(told.leaving().get(gpu_type, 0)) for told in self)

    def idle(self, gpu_type: str) -> float:
        """GPUs of a type that no job has, wishes for or is to find free."""
        return max(0.0, self.there.get(gpu_type, 0) - self._needed[gpu_type])

    def batch_lacks(self, word: Word) -> float:
        """GPUs that the batch pool could use beside what is idle while this job lends no standby."""
        kind, told = word.kind, self.of(word.decision.job)
        before = 0.0 if told is None else told.gpus_needed(kind)
        mine = max(before, word.standing.gpus(word.decision.planned))
        idle = self.there.get(kind, 0) - (self._needed[kind] - before) - mine
        return self.batch_most.get(kind, 0.0) - max(0.0, idle)
