"""The hidden model behind synthetic clicks: what people like, and how that drifts.

The log-odds of a click are a sum of

- how readily the user clicks, and how good the item is just now;
- how much the user's segment likes the item's category just now;
- the device at this hour, the price, and how recently the item was shown.

Tastes and qualities go round in circles, each with its own period around `drift_s`: what was
learned half a period ago is wrong today, and nothing ever repeats exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Ints = NDArray[np.int64]

DEVICES = 4
HOURS = 24
_BIAS = -1.1


@dataclass(frozen=True, slots=True)
class Scene:
    """Who sees what, where: one row per sample."""

    user: Ints
    item: Ints
    segment: Ints
    category: Ints
    device: Ints
    hour: Ints
    price: Reals
    recency: Reals


@dataclass(slots=True)
class Tastes:
    """The hidden model, the same for the same seed. Asked for any instant, in any order."""

    users: int
    items: int
    segments: int = 12
    categories: int = 24
    drift_s: float = 86_400.0
    seed: int = 1
    segment_of: Ints = field(init=False, repr=False)
    category_of: Ints = field(init=False, repr=False)
    _readiness: Reals = field(init=False, repr=False)
    _price_of: Reals = field(init=False, repr=False)
    _device_hour: Reals = field(init=False, repr=False)
    _quality: Wave = field(init=False, repr=False)
    _affinity: Wave = field(init=False, repr=False)
    _busy_hour: Reals = field(init=False, repr=False)

    def __post_init__(self) -> None:
        random = np.random.default_rng([self.seed, 3])
        self.segment_of = random.integers(0, self.segments, self.users)
        self.category_of = random.integers(0, self.categories, self.items)
        self._readiness = random.normal(0.0, 0.5, self.users)
        self._price_of = random.normal(0.0, 1.0, self.items)
        self._device_hour = random.normal(0.0, 0.3, (DEVICES, HOURS))
        self._quality = Wave.drawn(random, (self.items,), self.drift_s, deviation=0.7)
        self._affinity = Wave.drawn(random, (self.segments, self.categories), self.drift_s, deviation=1.2)
        self._busy_hour = random.uniform(0.0, HOURS, self.categories)

    def popularity(self, at_s: float) -> Reals:
        """Share of each category in what is shown at `at_s`: each has its hour of the day."""
        hour = at_s / 3600.0 % HOURS
        weight = np.exp(0.8 * np.cos((hour - self._busy_hour) * 2 * math.pi / HOURS))
        shares: Reals = weight / weight.sum()
        return shares

    def price(self, item: Ints) -> Reals:
        """What the items usually cost, in deviations from the mean."""
        prices: Reals = self._price_of[item]
        return prices

    def chances(self, scene: Scene, at_s: float) -> Reals:
        """How likely each is to be clicked at `at_s`."""
        odds = (
            _BIAS
            + self._readiness[scene.user]
            + self._quality.at(at_s)[scene.item]
            + self._affinity.at(at_s)[scene.segment, scene.category]
            + self._device_hour[scene.device, scene.hour]
            - 0.4 * scene.price
            - 0.3 * scene.recency
        )
        chances: Reals = 1.0 / (1.0 + np.exp(-odds))
        return chances


@dataclass(frozen=True, slots=True)
class Wave:
    """Values that go up and down, each at its own pace."""

    height: Reals
    pace: Reals
    """Radians a second."""
    phase: Reals

    @classmethod
    def drawn(
        cls, random: np.random.Generator, shape: tuple[int, ...], period_s: float, *, deviation: float
    ) -> Wave:
        """Random ones, whose values at any instant have this deviation."""
        return cls(
            height=random.normal(0.0, deviation * math.sqrt(2.0), shape),
            pace=2 * math.pi / (period_s * random.uniform(0.6, 1.4, shape)),
            phase=random.uniform(0.0, 2 * math.pi, shape),
        )

    def at(self, at_s: float) -> Reals:
        """The values at one instant."""
        values: Reals = self.height * np.cos(self.pace * at_s + self.phase)
        return values
