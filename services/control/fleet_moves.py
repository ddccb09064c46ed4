"""What is remembered of jobs that move between GPU types: since when, and where it did not work."""

from __future__ import annotations

SHUNNED_S = 600.0
"""A type on which a job found no room, or where no worker came, is not tried again for so long."""


class Moves:
    """Of one controller. Lost with it: a successor waits anew, and that is all."""

    def __init__(self, *, wait_s: float) -> None:
        self._wait_s = wait_s
        self._waiting: dict[str, tuple[str, float]] = {}
        self._moving: dict[str, float] = {}
        self._shunned: dict[str, dict[str, float]] = {}

    def may_try(
        self, job: str, kinds: tuple[str, ...], *, now_s: float, always: tuple[str, ...]
    ) -> tuple[str, ...]:
        """The types without those that did not work lately; what is in `always` stays."""
        shunned = self._shunned.get(job, {})
        return tuple(kind for kind in kinds if kind in always or shunned.get(kind, now_s) <= now_s)

    def shun(self, job: str, gpu_type: str, *, now_s: float) -> None:
        """Not this type again for a while."""
        self._shunned.setdefault(job, {})[gpu_type] = now_s + SHUNNED_S
        self._waiting.pop(job, None)
        self._moving.pop(job, None)

    def waited(self, job: str, gpu_type: str, *, now_s: float) -> bool:
        """Whether the job has waited long enough for room: two may wait for each other."""
        kind, since_s = self._waiting.get(job, ("", 0.0))
        if kind != gpu_type:
            self._waiting[job] = (gpu_type, now_s)
            return False
        return now_s - since_s >= self._wait_s

    def settled(self, job: str) -> None:
        """The job waits for no room."""
        self._waiting.pop(job, None)

    def moved_for_s(self, job: str, *, moving: bool, now_s: float) -> float:
        """For how long the job has been on the move; 0 for one that is not."""
        if not moving:
            self._moving.pop(job, None)
            return 0.0
        return now_s - self._moving.setdefault(job, now_s)

    def forget(self, job: str) -> None:
        """This controller does not decide for the job any more."""
        for memory in (self._waiting, self._moving, self._shunned):
            memory.pop(job, None)
