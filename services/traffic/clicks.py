"""Synthetic clicks: samples that can be learned from, made some hundred at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from services.samples.layout import Samples, SampleShape, encode
from services.samples.scores import auc
from services.traffic.tastes import DEVICES, HOURS, Ints, Reals, Scene, Tastes

CLICK_SHAPE: Final = SampleShape(categorical=6, numeric=2)
"""User, item, segment, category, device, hour; price, recency."""

CLICK_CROSSES: Final = ((2, 3),)
"""What a segment thinks of a category is what tells most of a click."""

_DRAWS: Final = 7
_REMEMBERED: Final = 20_000
"""Samples over which the hidden model's own AUC is told."""


@dataclass(frozen=True, slots=True)
class Clicks:
    """Samples, and how likely the hidden model thought each click."""

    samples: Samples
    chances: Reals


@dataclass(slots=True)
class ClickMaker:
    """Clicks and their keys, the same for the same seed, however they are batched.

    User k is drawn in proportion to 1/(k+1)^skew, and is the message's key; items likewise within
    their category, and categories as the hour has it.
    """

    users: int = 10_000
    skew: float = 0.8
    items: int = 2_000
    drift_s: float = 86_400.0
    seed: int = 1
    made: int = 0
    """Samples so far."""
    tastes: Tastes = field(init=False, repr=False)
    _user_upto: Reals = field(init=False, repr=False)
    _shelves: list[Ints] = field(init=False, repr=False)
    _item_upto: list[Reals] = field(init=False, repr=False)
    _random: np.random.Generator = field(init=False, repr=False)
    _recent: deque[tuple[Samples, Reals]] = field(init=False, repr=False)
    _recent_count: int = field(init=False, default=0, repr=False)

    def __post_init__(self) -> None:
        if self.users < 1 or self.items < 1 or not self.skew >= 0 or not self.drift_s > 0:
            raise ValueError(
                f"users ({self.users}) and items ({self.items}) must be at least 1, skew ({self.skew}) must "
                f"not be negative, drift_s ({self.drift_s}) must be positive"
            )
        self.tastes = Tastes(users=self.users, items=self.items, drift_s=self.drift_s, seed=self.seed)
        self._user_upto = _zipf(self.users, self.skew)
        self._shelves = [
            np.flatnonzero(self.tastes.category_of == category) for category in range(self.tastes.categories)
        ]
        self._item_upto = [_zipf(len(shelf), 0.8) for shelf in self._shelves]
        self._random = np.random.default_rng([self.seed, 1])
        self._recent = deque()

    @property
    def hidden_auc(self) -> float | None:
        """How well the hidden model itself told the latest clicks: no trainer can do better for long."""
        if not self._recent:
            return None
        labels = np.concatenate([samples.labels for samples, _ in self._recent])
        return auc(labels, np.concatenate([chances for _, chances in self._recent]))

    def make(self, count: int, *, at_s: float, simulated_s: float) -> list[tuple[bytes, bytes]]:
        """The next `count` samples as (key, value), of events at `at_s`; tastes are as at `simulated_s`."""
        clicks = self.draw(count, at_s=at_s, simulated_s=simulated_s)
        self._remember(clicks)
        keys = (b"user-%d" % user for user in clicks.samples.ids[:, 0].tolist())
        return list(zip(keys, encode(clicks.samples), strict=True))

    def draw(self, count: int, *, at_s: float, simulated_s: float) -> Clicks:
        """The next `count` clicks."""
        # Row by row, so that a sample gets the same numbers however many are drawn with it.
        chance = self._random.random((count, _DRAWS))
        scene = self._scene(chance, simulated_s)
        chances = self.tastes.chances(scene, simulated_s)
        ids = (scene.user, scene.item, scene.segment, scene.category, scene.device, scene.hour)
        self.made += count
        return Clicks(
            Samples(
                labels=(chance[:, 6] < chances).astype(np.float32),
                at_s=np.full(count, at_s),
                ids=np.stack(ids, axis=1).astype(np.uint64),
                numbers=np.stack([scene.price, scene.recency], axis=1).astype(np.float32),
            ),
            chances,
        )

    def _scene(self, chance: Reals, simulated_s: float) -> Scene:
        tastes = self.tastes
        user = _drawn(self._user_upto, chance[:, 0])
        category = _drawn(np.cumsum(tastes.popularity(simulated_s)), chance[:, 1])
        item = self._items(category, chance[:, 2])
        return Scene(
            user=user,
            item=item,
            segment=tastes.segment_of[user],
            category=tastes.category_of[item],
            device=(chance[:, 3] * DEVICES).astype(np.int64),
            hour=np.full(len(user), int(simulated_s // 3600) % HOURS),
            price=tastes.price(item) + (chance[:, 4] - 0.5),
            recency=np.minimum(-np.log1p(-chance[:, 5]), 4.0) - 1.0,
        )

    def _items(self, category: Ints, chance: Reals) -> Ints:
        items = np.zeros(len(category), np.int64)
        for shelf in np.unique(category):
            mine = category == shelf
            if len(self._shelves[shelf]):  # with few items, a category may have none: then item 0 is shown
                items[mine] = self._shelves[shelf][_drawn(self._item_upto[shelf], chance[mine])]
        return items

    def _remember(self, clicks: Clicks) -> None:
        self._recent.append((clicks.samples, clicks.chances))
        self._recent_count += len(clicks.samples)
        while self._recent_count - len(self._recent[0][0]) >= _REMEMBERED:
            self._recent_count -= len(self._recent.popleft()[0])


def _zipf(count: int, skew: float) -> Reals:
    weights = np.arange(1, count + 1, dtype=np.float64) ** -skew
    upto: Reals = np.cumsum(weights) / max(weights.sum(), 1e-300)
    return upto


def _drawn(upto: Reals, chance: Reals) -> Ints:
    drawn: Ints = np.minimum(np.searchsorted(upto, chance, side="right"), len(upto) - 1)
    return drawn
