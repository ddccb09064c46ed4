"""Which model to believe, for one topic: every model is scored on what it said before.

The served quantiles are a mix. The weight of a model falls with its pinball loss, for
each lead and for rates and peaks apart; upper quantiles are weighed by the loss at
0.95, the others by the loss at the median.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.calibration import Calibration
from forecasting.forecast import LEVELS
from forecasting.grid import KINDS, PEAK, RATE, Grid
from forecasting.history import Rates, TrafficHistory
from forecasting.residuals import Indices

MEDIAN, UPPER = LEVELS.index(0.5), LEVELS.index(0.95)
SHARPNESS = np.array([12.0, 5.0])
"""Weight is the loss to minus this power, at the median and at 0.95: there, a model a seventh worse
has half the weight. Models err in different directions: a worse one that errs otherwise still mends
the mix, a quantile far out more than a median, whose loss is known better."""
JOINS_BELOW, LEAVES_ABOVE = 1.6, 2.0
"""Loss over the best model's at which a model joins the mix and at which it leaves: hysteresis."""
LEADER_MARGIN = 1.1
"""A new leader must have so many times the weight of the one in force."""
SHRINKAGE = 12.0
"""A lead with fewer scores than this is judged by how good the best model is."""
YARDSTICK = "last-value"
"""The simplest model; it always speaks. Models are compared by their loss over its loss at the same times."""
UNHEARD = 1e6
"""Stands for the ratio of a model that says nothing."""
SHARED = 0.5
"""How much of a model's standing at a lead is its mean standing over all of them: forecasts of one season
err together, so a lead by itself has few scores that are worth anything."""


@dataclass(frozen=True, slots=True)
class Score:
    """How good a model has been lately on one topic."""

    model: str
    loss: float
    """Pinball loss at 0.95 over the mean rate."""
    coverage: float
    """Share of what came that lay below its 0.95 quantile."""
    peak_bias: float
    """Mean of (median forecast - came) / came, over peaks."""
    weight: float
    """Mean weight in the mix."""
    scored: float
    """Forecasts behind these numbers, old ones counting less."""


@dataclass(frozen=True, slots=True, eq=False)
class _Pending:
    """Forecasts of one moment, until their time has come."""

    said: Rates
    """By every model: (models, KINDS, leads, LEVELS)."""
    served: Rates
    stride: float
    """Bins since the forecast before. It stands for them all: 36 of a rehearsed season count as a season."""


class Selector:
    """Mixes the models of one topic. Deterministic: state changes by what is told, nothing else."""

    def __init__(self, grid: Grid, models: Sequence[str], *, half_life_s: float | None = None) -> None:
        self.grid = grid
        self.models = tuple(models)
        self.leader = self.models[0]
        self.calibration = Calibration(grid)
        shape = (len(self.models), KINDS, len(grid.leads))
        half_life_s = grid.season_s if half_life_s is None else half_life_s
        self._decay = 0.5 ** (grid.step_s / half_life_s)
        self._loss = np.zeros((*shape, 2))
        """Decayed sums of pinball losses, by model, kind, lead; at the median and at 0.95."""
        self._yardstick = np.zeros((*shape, 2))
        """What the simplest model lost at the very times of those sums."""
        self._bins = np.zeros(shape)
        """How long those times were, decayed alike."""
        self._scored = np.zeros(shape)
        self._covered = np.zeros(shape)
        self._bias = np.zeros(shape)
        self._came = np.zeros(shape)
        self._member = np.ones((*shape, 2), dtype=bool)
        """Who is in the mix, at the median and at 0.95 apart."""
        self._needs: Indices = np.stack([grid.leads + 1, grid.leads + grid.width])
        self._pending: dict[int, _Pending] = {}
        """What is to be scored yet, by bin of issue."""
        self._settled_to: int | None = None
        self._served_loss = 0.0
        self._served_came = 0.0

    def renamed(self, models: Sequence[str]) -> Selector:
        """The same scores for another set of models; one that is new to it has none."""
        other = Selector(self.grid, models)
        other.calibration = self.calibration
        other._settled_to, other._stride = self._settled_to, self._stride
        other._served_loss, other._served_came = self._served_loss, self._served_came
        return other.remembering(self)

    def remembering(self, before: Selector) -> Selector:
        """This one, with the scores that models of these names had; what comes is added to them."""
        for new, model in enumerate(self.models):
            if model in before.models:
                old = before.models.index(model)
                for mine, theirs in zip(self._sums(), before._sums(), strict=True):
                    mine[new] = theirs[old]
        if before.leader in self.models:
            self.leader = before.leader
        return self

    def succeeding(self, before: Selector) -> Selector:
        """This one, with what the one before had learned of how far served quantiles are off."""
        self.calibration = before.calibration
        if before._served_came > 0:
            self._served_loss, self._served_came = before._served_loss, before._served_came
        return self

    def _sums(self) -> tuple[Rates, ...]:
        return self._loss, self._yardstick, self._bins, self._scored, self._covered, self._bias, self._came

    def settle(self, history: TrafficHistory) -> None:
        """Score everything whose time has come. A gap scores nothing."""
        now = round(history.end_s / self.grid.step_s)
        oldest = now - int(self._needs.max())
        if self._pending and self._settled_to is not None:
            # Bins that no step saw closing are settled now, as far back as anything is open.
            start = max(self._settled_to, min(self._pending)) + 1
            for end in range(start, now + 1):
                self._settle_bin(end, now, history.rates)
        self._settled_to = now
        for issued in [issued for issued in self._pending if issued <= oldest]:
            del self._pending[issued]

    def _settle_bin(self, end: int, now: int, rates: Rates) -> None:
        """Targets that became known when the bin before `end` closed."""
        for kind in range(KINDS):
            for lead, needs in enumerate(self._needs[kind]):
                pending = self._pending.get(end - int(needs))
                if pending is None:
                    continue
                last = max(len(rates) - (now - end), 0)  # a history that began anew knows nothing of then
                first = last - (1 if kind == RATE else self.grid.width)
                window = rates[max(first, 0) : last]
                known = window[~np.isnan(window)]
                if len(known):
                    self._score(kind, lead, float(known.max()), pending)

    def _score(self, kind: int, lead: int, came: float, pending: _Pending) -> None:
        at, served, stride = pending.said[:, kind, lead], pending.served, pending.stride
        spoke = ~np.isnan(at[:, UPPER])
        decay = np.where(spoke, self._decay**stride, 1.0)
        error = came - np.where(spoke[:, None], at[:, (MEDIAN, UPPER)], 0.0)
        taus = np.array([0.5, 0.95])
        loss = np.maximum(taus * error, (taus - 1) * error)
        for losses, lost in ((self._loss, loss), (self._yardstick, self._measure(loss, spoke))):
            losses[:, kind, lead] = losses[:, kind, lead] * decay[:, None] + stride * lost * spoke[:, None]
        for sums, value in (
            (self._scored, 1.0),
            (self._bins, stride),
            (self._covered, stride * (came <= at[:, UPPER])),
            (self._bias, -stride * error[:, 0]),
            (self._came, stride * came),
        ):
            sums[:, kind, lead] = sums[:, kind, lead] * decay + np.where(spoke, value, 0.0)
        served_error = came - float(self.calibration.applied(served)[kind, lead, UPPER])
        keep = 0.998
        self._served_loss = keep * self._served_loss + max(0.95 * served_error, -0.05 * served_error)
        self._served_came = keep * self._served_came + came
        self.calibration.learn(kind, lead, came, served[kind, lead])

    def _measure(self, loss: Rates, spoke: NDArray[np.bool_]) -> Rates:
        """The loss that all others are held against: the simplest model's, else the speakers' mean."""
        simplest = self.models.index(YARDSTICK) if YARDSTICK in self.models else None
        if simplest is not None and spoke[simplest]:
            return np.asarray(loss[simplest])
        return np.asarray(loss[spoke].mean(axis=0)) if spoke.any() else np.zeros(2)

    @property
    def served_loss(self) -> float | None:
        """Pinball loss at 0.95 of what was served lately, over the mean of what came."""
        return self._served_loss / self._served_came if self._served_came > 0 else None

    _stride = 1.0
    """Bins between two forecasts; scores are decayed by time, not by number."""

    def mix(self, issued_at_s: float, said: Mapping[str, Rates]) -> Rates:
        """The quantiles to serve (KINDS, leads, LEVELS), remembered to be scored.

        A model that says nothing is left out; where all do, all is NaN. With no scores yet all
        models weigh the same, which is better than most of them alone.
        """
        issued = round(issued_at_s / self.grid.step_s)
        shape = (KINDS, len(self.grid.leads), len(LEVELS))
        table = np.stack([said.get(model, np.full(shape, np.nan)) for model in self.models])
        spoke = ~np.isnan(table[:, :, :, UPPER])
        if not spoke.any():
            return np.full(shape, np.nan)  # silence, not a forecast of no traffic
        lower, upper = self._weights(spoke)
        heard = np.where(spoke[..., None], table, 0.0)
        served = np.empty(shape)
        served[..., : MEDIAN + 1] = (heard[..., : MEDIAN + 1] * lower[..., None]).sum(axis=0)
        served[..., MEDIAN + 1 :] = (heard[..., MEDIAN + 1 :] * upper[..., None]).sum(axis=0)
        served = np.maximum.accumulate(served, axis=-1)
        if self._pending:
            self._stride = max(1.0, float(issued - max(self._pending)))
        self._pending[issued] = _Pending(table, served, self._stride)
        return self.calibration.applied(served)

    def _weights(self, spoke: NDArray[np.bool_]) -> tuple[Rates, Rates]:
        """Weights (models, KINDS, leads) for the lower levels and for the upper ones."""
        ratios = self._ratios(spoke)
        self._member = np.where(self._member, ratios < LEAVES_ABOVE, ratios < JOINS_BELOW)
        weights = np.where(spoke[..., None], ratios**-SHARPNESS, 0.0)
        lower, upper = (self._normed(weights[..., at], self._member[..., at]) for at in (0, 1))
        self._choose_leader(upper)
        return lower, upper

    @staticmethod
    def _normed(weights: Rates, member: NDArray[np.bool_]) -> Rates:
        inside = np.where(member, weights, 0.0)
        # Where no member speaks, whoever speaks is heard.
        weights = np.where(inside.sum(axis=0) > 0, inside, weights)
        return np.asarray(weights / np.maximum(weights.sum(axis=0), 1e-300))

    def _ratios(self, spoke: NDArray[np.bool_]) -> Rates:
        """Loss over the best speaker's, >= 1, by (models, KINDS, leads, 2)."""
        scored, bins = self._scored[..., None], self._bins[..., None]
        level = self._came.sum() / max(float(self._bins.sum()), 1e-9)
        floor = 1e-6 * max(level, 1e-12) * np.maximum(bins, 1e-9)
        # Each is held against the yardstick over its own times: one that was there before a calm week
        # and one that came on the day of a flash crowd have means that tell of the traffic, not of them.
        held = (self._loss + floor) / (self._yardstick + floor)
        # A newcomer starts as if it were as good as the best: it was accepted on its own merits.
        usual = np.where(scored > 0, held, np.inf).min(axis=0)
        usual = np.where(np.isfinite(usual), usual, 1.0)
        trust = scored / (scored + SHRINKAGE)
        held = np.exp(trust * np.log(held) + (1 - trust) * np.log(usual))
        held = np.where(spoke[..., None], held, np.inf)
        best = np.min(held, axis=0)
        ratios = np.where(np.isfinite(held), held / np.where(np.isfinite(best), best, 1.0), UNHEARD)
        logs = np.log(ratios)
        logs = (1 - SHARED) * logs + SHARED * logs.mean(axis=(1, 2), keepdims=True)
        return np.asarray(np.where(np.isfinite(held), np.exp(logs - logs.min(axis=0)), UNHEARD))

    def _choose_leader(self, upper: Rates) -> None:
        share = upper.mean(axis=(1, 2))
        best = int(np.argmax(share))
        current = self.models.index(self.leader)
        if share[best] > LEADER_MARGIN * share[current]:
            self.leader = self.models[best]
        self._share = share

    _share: Rates = np.empty(0)

    @property
    def shares(self) -> dict[str, float]:
        """Mean weight of every model in the upper quantiles of the last mix."""
        return {model: float(share) for model, share in zip(self.models, self._share, strict=False)}

    def scores(self) -> tuple[Score, ...]:
        """How every model has done lately."""
        scored = self._scored.sum(axis=(1, 2))
        safe = np.maximum(self._bins.sum(axis=(1, 2)), 1e-9)
        level = np.maximum(self._came.sum(axis=(1, 2)) / safe, 1e-300)
        loss = self._loss[..., 1].sum(axis=(1, 2)) / safe / level
        peaks = np.maximum(self._came[:, PEAK].sum(axis=1), 1e-300)
        share = self._share if len(self._share) else np.full(len(self.models), 1 / len(self.models))
        return tuple(
            Score(
                model,
                loss=float(loss[i]),
                coverage=float(self._covered[i].sum() / safe[i]),
                peak_bias=float(self._bias[i, PEAK].sum() / peaks[i]),
                weight=float(share[i]),
                scored=float(scored[i]),
            )
            for i, model in enumerate(self.models)
        )
