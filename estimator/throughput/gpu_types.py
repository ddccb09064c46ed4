"""One model a GPU type; a type never seen borrows from one that was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from estimator.throughput.fitted import borrowed
from estimator.throughput.model import ThroughputModel
from estimator.throughput.scalability import LawPrior
from estimator.throughput.window import ThroughputWindow

_WINDOWS = 3
"""Windows that a measurement of a profile counts as: the first after a resize is taken for neither size."""


@dataclass(frozen=True, slots=True)
class Guess:
    """What is said of a lone worker before anything is seen."""

    rate_per_worker: float
    contention: float = 0.02
    lone_rates: Mapping[str, float] = field(default_factory=dict)
    """Samples/s of one worker alone, by GPU type, where someone knows: the settings or a profile."""
    profile: tuple[ThroughputWindow, ...] = ()
    """What a profile measured before the first decision: workers that always had samples."""


@dataclass(frozen=True, slots=True)
class GpuTypes:
    """The throughput of each type of GPU that a job has run on. An immutable value; stored as it is.

    What a profile measured is not stored with it: it comes with the guess, until the job has run itself.

    >>> round(GpuTypes().of("h100", Guess(100.0, lone_rates={"h100": 300.0})).samples_per_s(1))
    300
    """

    models: Mapping[str, ThroughputModel] = field(default_factory=dict)
    """Of the types that have been seen."""

    def seen(self, window: ThroughputWindow, guess: Guess) -> GpuTypes:
        """Teach the model of the window's type."""
        kind = window.gpu_type
        return GpuTypes({**self.models, kind: self.of(kind, guess).seen(window)})

    def knows(self, gpu_type: str, guess: Guess) -> bool:
        """Whether a lone worker's rate on this type was seen, profiled or stated: not only assumed."""
        own = self.models.get(gpu_type)
        if own is not None and own.knowledge.rows:
            return True
        return gpu_type in guess.lone_rates or any(one.gpu_type == gpu_type for one in guess.profile)

    def of(self, gpu_type: str, guess: Guess) -> ThroughputModel:
        """What is known of a type: what was seen, else what another type lends, else the guess."""
        own = self.models.get(gpu_type)
        if own is not None and (own.knowledge.rows or own.knowledge.drift.alarms):
            return own
        alone = guess.lone_rates.get(gpu_type)
        guessed = _guessed(alone or guess.rate_per_worker, guess.contention, gpu_type)
        if own is None and not self.models and not guess.profile:
            return guessed
        known = guessed.knowledge
        profiled = _profiled(guess.profile, guess.rate_per_worker, guess.contention)
        if own is None and gpu_type in profiled:
            return profiled[gpu_type]
        lender = max((profiled | dict(self.models)).values(), key=_experience, default=None)
        if lender is not None and lender.knowledge.rows:
            # X_B(n) = X_A(n)·X_B(1)/X_A(1) (Sia), but for the ceiling of what both share.
            ratio = 1.0 if alone is None else alone / lender.samples_per_s(1)
            fitted = borrowed(lender.knowledge.fitted, ratio)
            prior = LawPrior(fitted.capacity(1), fitted.contention)
            known = replace(known, prior=prior, fitted=fitted)
        if own is None:
            return ThroughputModel(known)
        return ThroughputModel(replace(own.knowledge, prior=known.prior, fitted=known.fitted))


@lru_cache(maxsize=256)
def _guessed(rate_per_worker: float, contention: float, gpu_type: str) -> ThroughputModel:
    # Remembered, since a job that tells nothing asks at every tick.
    return ThroughputModel.guessed(rate_per_worker, contention=contention, gpu_type=gpu_type)


@lru_cache(maxsize=256)
def _profiled(
    windows: tuple[ThroughputWindow, ...], rate_per_worker: float, contention: float
) -> dict[str, ThroughputModel]:
    """By GPU type, what a profile's windows teach."""
    models: dict[str, ThroughputModel] = {}
    for window in windows:
        kind = window.gpu_type
        model = models.get(kind) or _guessed(rate_per_worker, contention, kind)
        for part in range(_WINDOWS):
            model = model.seen(replace(window, at_s=window.at_s + part / _WINDOWS))
        models[kind] = model
    return models


def _experience(model: ThroughputModel) -> tuple[int, float, str]:
    rows = model.knowledge.rows
    return len({row.workers for row in rows}), sum(row.count for row in rows), model.knowledge.gpu_type
