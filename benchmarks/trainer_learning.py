"""How near the model comes to the one that made the clicks, and what lateness costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from services.samples.layout import Samples
from services.samples.scores import auc
from services.traffic.clicks import CLICK_CROSSES, CLICK_SHAPE, ClickMaker
from services.traffic.tastes import Reals
from services.trainer.in_process import BATCH, InProcessModel, trained_late
from services.trainer.net import NetShape


@dataclass(frozen=True, slots=True)
class Learned:
    """AUC over the last quarter of a run."""

    auc: float
    hidden_auc: float

    @property
    def share(self) -> float:
        """Of what there was to learn."""
        return (self.auc - 0.5) / (self.hidden_auc - 0.5)


@dataclass(slots=True)
class _Clicks:
    """Batches of clicks at a steady rate; remembers what was true of them."""

    batches: int
    speed_up: float
    per_s: float
    maker: ClickMaker
    labels: list[np.ndarray] = field(default_factory=list)
    chances: list[Reals] = field(default_factory=list)

    def __iter__(self) -> Iterator[tuple[float, Samples]]:
        for number in range(self.batches):
            at_s = number * BATCH / self.per_s * self.speed_up
            clicks = self.maker.draw(BATCH, at_s=at_s, simulated_s=at_s)
            self.labels.append(clicks.samples.labels)
            self.chances.append(clicks.chances)
            yield at_s, clicks.samples


def _resized(
    model: InProcessModel, clicks: Iterable[tuple[float, Samples]], every: int, seed: int
) -> Iterator[tuple[float, Samples]]:
    """The clicks, while workers come and go: a worker that leaves pushes what it has."""
    most, random = model.stale_batches, np.random.default_rng([seed, 7])
    for number, batch in enumerate(clicks):
        if every and number % every == 0:
            model.stale_batches = int(random.integers(0, most + 1))
        yield batch


def learned(
    samples: int,
    *,
    speed_up: float,
    late_s: float = 0.0,
    stale_batches: int = 0,
    resize_every: int = 0,
    crossed: bool = True,
    dim: int = 8,
    per_s: float = 1500.0,
    seed: int = 1,
) -> Learned:
    """Learn from `samples` clicks at `per_s`, simulated time passing `speed_up` times faster.

    Each is predicted as it comes and learned from `late_s` simulated seconds later; its gradients
    arrive `stale_batches` batches after its parameters were pulled; with `resize_every` that changes
    every so many batches, to anything from one worker's to `stale_batches`.
    """
    clicks = _Clicks(samples // BATCH, speed_up, per_s, ClickMaker(seed=seed))
    shape = NetShape(CLICK_SHAPE, crosses=CLICK_CROSSES if crossed else (), dim=dim)
    model = InProcessModel(shape, rows_max=100_000, stale_batches=stale_batches, seed=seed)
    said = list(trained_late(model, _resized(model, clicks, resize_every, seed), late_s))
    last = slice(-len(said) // 4, None)
    labels = np.concatenate(clicks.labels[last])
    ours, best = auc(labels, np.concatenate(said[last])), auc(labels, np.concatenate(clicks.chances[last]))
    assert ours is not None
    assert best is not None
    return Learned(ours, best)
