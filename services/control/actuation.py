"""The trail of what pools were asked for: written before it is done, marked with what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from estimator.reason import Reason


class Outcome(StrEnum):
    """What became of a resize."""

    ASKED = "asked"
    """Recorded; nobody knows yet whether it was carried out."""
    DONE = "done"
    """The platform has taken it."""
    REFUSED = "refused"
    """The platform said no."""
    SUPERSEDED = "superseded"
    """It was not seen carried out before another decision took its place."""


@dataclass(frozen=True, slots=True)
class Actuation:
    """One resize of a pool: what for, on whose decision, and how it ended."""

    decision_id: str
    at_s: float
    before: int
    workers: int
    reason: Reason
    fence: int
    """Token of the controller that asked."""
    remove: tuple[str, ...] = ()
    outcome: Outcome = Outcome.ASKED
    ended_at_s: float | None = None
    why: str = ""
    """In the platform's words, where it refused."""
    times: int = 1
    """How often in a row the same was asked for in vain; the other fields are of the latest."""
    first_at_s: float | None = None
    """When it was asked for first; None where it was once."""
    gpu_type: str = ""
    """Of which type, where the job has a pool for each."""

    @property
    def question(self) -> str:
        """What was asked for, for comparison with what was asked for before."""
        return f"{self.before}>{self.workers}{self.gpu_type and f' {self.gpu_type}'}"


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of one resize. Settling twice is settling once."""

    decision_id: str
    at_s: float
    outcome: Outcome
    why: str = ""

    @property
    def answer(self) -> str:
        """How it ended in vain, likewise; empty when it did not."""
        return "" if self.outcome is Outcome.DONE else f"{self.outcome}: {self.why}"
