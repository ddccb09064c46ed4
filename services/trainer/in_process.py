"""The same model and the same tables within one process: for replays, where nothing is to be scaled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from services.samples.layout import Floats, Ids, Samples
from services.samples.scores import auc
from services.trainer.net import Lesson, NetShape, NumpyNet
from services.trainer.ps.desk import ShardDesk
from services.trainer.ps.placement import keys_of
from services.trainer.ps.table import Learning

BATCH: Final = 64


class InProcessModel:
    """Predicts and learns. With `stale_batches`, gradients arrive so many batches after their pull, as they
    do when so many are under way at other workers."""

    def __init__(
        self, shape: NetShape, *, rows_max: int = 1_000_000, stale_batches: int = 0, seed: int = 1
    ) -> None:
        self.stale_batches = stale_batches
        self._under_way: deque[tuple[Ids, Floats, Floats]] = deque()
        self._shape = shape
        self._net = NumpyNet(shape)
        self._desk = ShardDesk(row_size=shape.row_size, rows_max=rows_max, learning=Learning())
        self._desk.dense.begin(shape.first_dense(seed))

    def predict(self, samples: Samples) -> Floats:
        """The chance of each, nothing learned."""
        keys, place = self._keys(samples)
        return self._lesson(samples, self._desk.table.pull(keys)[place]).chances

    def learn(self, samples: Samples) -> Floats:
        """The chance of each, as said before it was learned from. A batch that is no number is left out."""
        keys, place = self._keys(samples)
        lesson = self._lesson(samples, self._desk.table.pull(keys)[place])
        if lesson.sound:
            sums = np.zeros((len(keys), lesson.rows.shape[2]), np.float32)
            np.add.at(sums, place.ravel(), lesson.rows.reshape(-1, lesson.rows.shape[2]))
            self._under_way.append((keys, sums, lesson.dense))
        while len(self._under_way) > self.stale_batches:
            keys, sums, dense = self._under_way.popleft()
            self._desk.table.push(keys, sums)
            self._desk.dense.push(dense)
        return lesson.chances

    def _keys(self, samples: Samples) -> tuple[Ids, NDArray[np.intp]]:
        ids = self._shape.crossed(samples.ids)
        keys, place = np.unique(keys_of(ids), return_inverse=True)
        return keys, place.reshape(ids.shape)

    def _lesson(self, samples: Samples, rows: Floats) -> Lesson:
        return self._net.learn(rows, samples.numbers, samples.labels, self._desk.dense.values)


def trained_late(
    model: InProcessModel, batches: Iterable[tuple[float, Samples]], late_s: float
) -> Iterator[Floats]:
    """What the model says of each batch as it comes, when it learns from each `late_s` after its time."""
    waiting: deque[tuple[float, Samples]] = deque()
    for at_s, samples in batches:
        if not late_s:
            yield model.learn(samples)  # predicted on the way
            continue
        waiting.append((at_s, samples))
        while waiting and waiting[0][0] <= at_s - late_s:
            model.learn(waiting.popleft()[1])
        yield model.predict(samples)


@dataclass(frozen=True, slots=True)
class LateAuc:
    """How well a model did that learned `late_s` after the event."""

    late_s: float
    auc: float


def auc_by_lateness(
    samples: Samples,
    delays_s: Sequence[float],
    *,
    dim: int = 8,
    tell: Callable[[float], None] = lambda _: None,
) -> list[LateAuc]:
    """AUC over the second half of a log in time order, for each delay: the price of training late.

    `tell` hears which share of the work is done.
    Raises ValueError when the log is shorter than a delay, or its second half has labels of one kind only.
    """
    shape = NetShape(samples.shape, dim=dim)
    half = len(samples) // 2
    first_s, half_s = float(samples.at_s[0]), float(samples.at_s[half])
    if max(delays_s) > half_s - first_s:
        raise ValueError(
            f"the first half of the log spans {half_s - first_s:.0f} s: nothing would be learned within "
            f"{max(delays_s):.0f} s of it; give a longer log or shorter delays"
        )
    starts = range(0, len(samples), BATCH)
    parts = [samples.taken(np.arange(start, min(start + BATCH, len(samples)))) for start in starts]
    batches = [(float(part.at_s[-1]), part) for part in parts]
    found = []
    for place, late_s in enumerate(delays_s):
        said = []
        for done, chances_of_batch in enumerate(trained_late(InProcessModel(shape), batches, late_s), 1):
            said.append(chances_of_batch)
            tell((place + done / len(batches)) / len(delays_s))
        chances = np.concatenate(said)
        told = auc(samples.labels[half:], chances[half:])
        if told is None:
            raise ValueError("the second half of the log has labels of one kind only: no AUC can be told")
        found.append(LateAuc(late_s, told))
    return found


def delay_that_costs(loss: float, found: Sequence[LateAuc]) -> float | None:
    """The shortest delay at which the AUC is `loss` below that of the shortest delay tried.

    Between two delays the curve is taken as straight. None when no delay costs as much.

    >>> delay_that_costs(0.01, [LateAuc(0.0, 0.80), LateAuc(60.0, 0.81), LateAuc(120.0, 0.77)])
    90.0
    """
    curve = sorted(found, key=lambda told: told.late_s)
    wanted = curve[0].auc - loss
    for before, after in pairwise(curve):
        if after.auc <= wanted:
            share = (before.auc - wanted) / (before.auc - after.auc)
            return before.late_s + share * (after.late_s - before.late_s)
    return None
