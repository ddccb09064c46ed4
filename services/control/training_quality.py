"""How well the model does on samples that it has not seen yet, as workers tell it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrainingQuality:
    """Test-then-train: each sample is predicted before it is trained. Over the latest `samples` of them."""

    samples: int
    auc: float | None
    """Area under the ROC curve; None while there were not both clicks and none."""
    logloss: float
    sample_age_s: float
    """From the event to its being trained, on the average."""
    skipped: int = 0
    """Batches whose loss was no number, since the worker started. They changed nothing."""
    rejected: int = 0
    """Messages that were no sample, since the worker started. They are in the dead-letter topic."""
    staleness_batches: float = 0.0
    """Batches of others taken in between a batch's pull and its push, on the average."""


def pooled(told: Iterable[TrainingQuality | None]) -> TrainingQuality | None:
    """Of all workers together, each counting by its samples; None where nobody tells.

    >>> a, b = TrainingQuality(300, 0.8, 0.5, 2.0), TrainingQuality(100, 0.6, 0.7, 6.0, skipped=1)
    >>> together = pooled([a, None, b])
    >>> together.samples, round(together.auc, 3), round(together.sample_age_s, 3), together.skipped
    (400, 0.75, 3.0, 1)
    """
    known = [quality for quality in told if quality is not None and quality.samples]
    if not known:
        return None
    ordered = [quality for quality in known if quality.auc is not None]
    return TrainingQuality(
        samples=sum(quality.samples for quality in known),
        auc=_mean([(quality.auc or 0.0, quality.samples) for quality in ordered]) if ordered else None,
        logloss=_mean([(quality.logloss, quality.samples) for quality in known]),
        sample_age_s=_mean([(quality.sample_age_s, quality.samples) for quality in known]),
        skipped=sum(quality.skipped for quality in known),
        rejected=sum(quality.rejected for quality in known),
        staleness_batches=_mean([(quality.staleness_batches, quality.samples) for quality in known]),
    )


def _mean(weighed: list[tuple[float, int]]) -> float:
    return sum(value * weight for value, weight in weighed) / sum(weight for _, weight in weighed)
