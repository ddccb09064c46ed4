"""One model a GPU type; a type never seen borrows from one that was.

GpuTypeUnknown    neither a window nor a guess tells how fast a lone worker of that type is
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from estimator.throughput.fitted import borrowed
from estimator.throughput.knowledge import Knowledge
from estimator.throughput.model import ThroughputModel
from estimator.throughput.scalability import LawPrior
from estimator.throughput.window import ThroughputWindow


class GpuTypeUnknown(LookupError):
    """Nothing tells how fast a lone worker of this type is."""

    def __init__(self, gpu_type: str) -> None:
        why = "the rate of a lone worker is not known; profile it, or give one in the settings"
        super().__init__(f"GPU type {gpu_type!r}: {why}")
        self.gpu_type = gpu_type


@dataclass(frozen=True, slots=True)
class GpuTypes:
    """The throughput of each type of GPU that a job may run on.

    >>> types = GpuTypes(lone_rates={"a10": 100.0, "h100": 300.0})
    >>> round(types.of("h100").samples_per_s(1))
    300
    """

    lone_rates: Mapping[str, float]
    """Samples/s of one worker alone, by type: the operator's guess or a profile's result."""
    models: Mapping[str, ThroughputModel] = field(default_factory=dict)
    """Of the types that have been seen."""

    def seen(self, window: ThroughputWindow) -> GpuTypes:
        """Teach the model of the window's type. Raises GpuTypeUnknown."""
        kind = window.gpu_type
        return replace(self, models={**self.models, kind: self.of(kind).seen(window)})

    def of(self, gpu_type: str) -> ThroughputModel:
        """What is known of a type: what was seen, else what another type lends, else a guess.

        Raises GpuTypeUnknown when not even a guess is there.
        """
        own = self.models.get(gpu_type)
        if own is not None and own.knowledge.rows:
            return own
        alone = self.lone_rates.get(gpu_type)
        if alone is None:
            raise GpuTypeUnknown(gpu_type)
        lender = max(self.models.values(), key=_experience, default=None)
        guessed = ThroughputModel.guessed(alone, gpu_type=gpu_type)
        if lender is None or not lender.knowledge.rows:
            return own or guessed
        return ThroughputModel(_lent(lender, alone, own or guessed))


def _experience(model: ThroughputModel) -> tuple[int, float, str]:
    rows = model.knowledge.rows
    return len({row.workers for row in rows}), sum(row.count for row in rows), model.knowledge.gpu_type


def _lent(lender: ThroughputModel, alone: float, to: ThroughputModel) -> Knowledge:
    """X_B(n) = X_A(n)·X_B(1)/X_A(1) (Sia), but for the ceiling of what both share."""
    fitted = borrowed(lender.knowledge.fitted, alone / lender.samples_per_s(1))
    return replace(to.knowledge, prior=LawPrior(alone, fitted.contention), fitted=fitted)
