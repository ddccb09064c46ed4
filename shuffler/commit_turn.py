"""Whose turn it is to commit the watermark: one worker at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CommitTurn:
    """Lasts until it is ended, or for so long that whoever has it must have died."""

    holder: str | None = None
    until_s: float = 0.0
    ended_s: float | None = None

    def take(self, worker: str, *, every_s: float, lasts_s: float, now_s: float) -> bool:
        """Whether `worker` has the turn now: nobody else has, and the last ended `every_s` ago."""
        if self.holder is not None and now_s < self.until_s:
            return False
        if self.ended_s is not None and now_s < self.ended_s + every_s:
            return False
        self.holder, self.until_s = worker, now_s + lasts_s
        return True

    def end(self, worker: str, *, now_s: float) -> bool:
        """Whether the turn was still `worker`'s; then it is over."""
        if self.holder != worker:
            return False
        self.holder, self.ended_s = None, now_s
        return True
