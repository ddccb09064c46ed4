"""Test-then-train: what the model said of each sample before it learned from it, over a sliding window."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.control.training_quality import TrainingQuality
from services.samples.scores import auc, logloss


class OnlineEvaluation:
    """The latest `window` samples of one worker. Told by one thread, asked by another."""

    def __init__(self, *, window: int = 10_000) -> None:
        self._window = window
        self._lock = Lock()
        self._parts: deque[tuple[NDArray[Any], NDArray[Any], float, int]] = deque()
        self._count = 0
        self._skipped = 0
        self._rejected = 0
        self._known: TrainingQuality | None = None

    def trained(
        self, labels: NDArray[Any], chances: NDArray[Any], *, age_s: float, stale_batches: int = 0
    ) -> None:
        """A batch was trained; `chances` were said before, `age_s` is how old its samples were, and
        `stale_batches` how many of other workers came between its pull and its push."""
        with self._lock:
            self._known = None
            self._parts.append((labels, chances, age_s, stale_batches))
            self._count += len(labels)
            while self._count - len(self._parts[0][0]) >= self._window:
                self._count -= len(self._parts.popleft()[0])

    def skipped(self) -> None:
        """A batch was left out: its loss was no number."""
        with self._lock:
            self._known = None
            self._skipped += 1

    def rejected(self, count: int) -> None:
        """Messages were no samples."""
        with self._lock:
            self._known = None
            self._rejected += count

    def quality(self) -> TrainingQuality:
        """How good the model has been lately."""
        with self._lock:
            if self._known is None:
                self._known = self._measured()
            return self._known

    def _measured(self) -> TrainingQuality:
        if not self._parts:
            return TrainingQuality(0, None, 0.0, 0.0, skipped=self._skipped, rejected=self._rejected)
        labels = np.concatenate([labels for labels, *_ in self._parts])
        chances = np.concatenate([chances for _, chances, *_ in self._parts])
        counts = np.array([len(part) for part, *_ in self._parts])
        ages_s, stale = (np.array([part[at] for part in self._parts], np.float64) for at in (2, 3))
        return TrainingQuality(
            samples=self._count,
            auc=auc(labels, chances),
            logloss=logloss(labels, chances),
            sample_age_s=float(counts @ ages_s) / max(self._count, 1),
            skipped=self._skipped,
            rejected=self._rejected,
            staleness_batches=float(counts @ stale) / max(self._count, 1),
        )
