"""How near the model comes to the one that made the clicks, and what lateness costs."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from services.samples.layout import Samples
from services.samples.scores import auc
from services.traffic.clicks import CLICK_SHAPE, ClickMaker
from services.trainer.net import NetShape, NumpyNet
from services.trainer.ps.client import ParameterClient
from services.trainer.ps.desk import ShardDesk
from services.trainer.ps.placement import SlotMap
from services.trainer.ps.table import Learning

SHAPE = NetShape(CLICK_SHAPE)
_BATCH = 64


class _NoDirectory:
    """Only the slots are asked for: everything is in this process."""

    def find(self, shard: int) -> None:
        raise NotImplementedError(shard)

    def slots(self, shards: int) -> SlotMap:
        return SlotMap.by_capacity([1.0] * shards)


@dataclass(frozen=True, slots=True)
class Learned:
    """AUC over the last quarter of a run."""

    auc: float
    hidden_auc: float

    @property
    def share(self) -> float:
        """Of what there was to learn."""
        return (self.auc - 0.5) / (self.hidden_auc - 0.5)


def learned(
    samples: int, *, speed_up: float, late_s: float = 0.0, per_s: float = 1500.0, seed: int = 1
) -> Learned:
    """Learn from `samples` clicks at `per_s`, simulated time passing `speed_up` times faster.

    Each is predicted as it comes and learned from `late_s` simulated seconds later.
    """
    maker, net = ClickMaker(seed=seed), NumpyNet(SHAPE)
    desk = ShardDesk(row_size=SHAPE.row_size, rows_max=100_000, learning=Learning())
    desk.dense.begin(SHAPE.first_dense(seed))
    keying = ParameterClient(_NoDirectory(), shards=1, row_size=SHAPE.row_size)  # type: ignore[arg-type]
    waiting: deque[tuple[float, Samples]] = deque()
    labels, chances, hidden = [], [], []
    for number in range(samples // _BATCH):
        at_s = number * _BATCH / per_s * speed_up
        clicks = maker.draw(_BATCH, at_s=at_s, simulated_s=at_s)
        waiting.append((at_s, clicks.samples))
        if late_s:  # a sample learned at once is predicted on the way
            chances.append(_lesson(clicks.samples, keying, desk, net, learn=False))
        while waiting and waiting[0][0] <= at_s - late_s:
            said = _lesson(waiting.popleft()[1], keying, desk, net, learn=True)
            if not late_s:
                chances.append(said)
        labels.append(clicks.samples.labels)
        hidden.append(clicks.chances)
    last = slice(-len(labels) // 4, None)
    truth = np.concatenate(labels[last])
    ours, best = auc(truth, np.concatenate(chances[last])), auc(truth, np.concatenate(hidden[last]))
    assert ours is not None
    assert best is not None
    return Learned(ours, best)


def _lesson(
    samples: Samples, keying: ParameterClient, desk: ShardDesk, net: NumpyNet, *, learn: bool
) -> np.ndarray:
    keyed = keying.keyed(samples.ids)
    rows = desk.table.pull(keyed.keys)[keyed.place]
    lesson = net.learn(rows, samples.numbers, samples.labels, desk.dense.values)
    if learn:
        desk.table.push(keyed.keys, keyed.summed(lesson.rows))
        desk.dense.push(lesson.dense)
    return lesson.chances
