"""When to plan, and the plan: model, live rate, futures and price put together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from estimator.capacity import Capacity
from estimator.planner.choice import Choice, Weighing
from estimator.planner.features import Floats
from estimator.planner.futures import Futures, futures_of, given_path
from estimator.planner.grain import bins_together, coarsened
from estimator.planner.memory import Held, PlannerMemory, noted
from estimator.planner.scores import Said
from estimator.planner.timing import Timing
from estimator.planner.traffic_model import Outlook, Recent, TrafficModel, fit
from estimator.reason import Reason
from estimator.situation import Limits, Situation, Slo
from forecasting.forecast import Forecast
from forecasting.history import TrafficHistory

LIVE_FROM = 0.15
"""Share of a bin that must have passed before its rate so far is waited for no longer."""
HEARD_FROM = 0.05
"""Share of a bin that must have been seen before its rate so far says anything."""
NEWS = 2.0
"""A live rate this many usual errors away from the one planned with is planned for at once."""
SURPRISE_MIN = 0.01
"""Log rates are known no better than this."""
HISTORY_SEASONS = 28
REFIT_BINS = 1440


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What was chosen, and the futures that it was chosen for."""

    choice: Choice
    futures: Futures


class Planner:
    """Plans for one job. What it keeps besides its memory is a cache: the same arguments, the same plan."""

    def __init__(self, *, season_s: float, explains: bool = True) -> None:
        self.season_s = season_s
        self.explains = explains
        self._fitted: tuple[object, float, TrafficModel | None] = ((), 0.0, None)
        self._recent: tuple[object, Recent | None] = ((), None)
        self._coarse: tuple[object, TrafficHistory | None] = ((), None)

    def grained(self, seen: Situation) -> Situation:
        """The situation with its history in bins that suit the lead time."""
        history = seen.history
        if history is None:
            return seen
        many = bins_together(_timing(seen, history))
        if many == 1:
            return seen
        key = (history.start_s, history.end_s, many)
        if self._coarse[0] != key:
            self._coarse = (key, coarsened(history, many))
        return replace(seen, history=self._coarse[1])

    def model(self, seen: Situation, memory: PlannerMemory) -> tuple[TrafficModel | None, PlannerMemory]:
        """The model of the traffic, fitted again once a day, or when there is a fifth more to learn from.

        None while the history is too short.
        """
        history = seen.history
        if history is None or len(history.rates) == 0:
            return None, memory
        fitted_at_s = memory.fitted_at_s
        model = None
        if fitted_at_s is not None and 0 <= history.end_s - fitted_at_s < self._refit_s(history, fitted_at_s):
            model = self._model(history, fitted_at_s, seen)
        if model is None and fitted_at_s != history.end_s:
            fitted_at_s = history.end_s
            model = self._model(history, fitted_at_s, seen)
        return model, replace(memory, fitted_at_s=fitted_at_s)

    def _refit_s(self, history: TrafficHistory, fitted_at_s: float) -> float:
        grown_s = max(0.2 * (fitted_at_s - history.start_s), 10 * history.step_s)
        return min(REFIT_BINS * history.step_s, self.season_s, grown_s)

    def _model(self, history: TrafficHistory, at_s: float, seen: Situation) -> TrafficModel | None:
        timing = _timing(seen, history)
        key = (at_s, timing.bin_s, timing.ahead, timing.lead, timing.guard, timing.patience)
        known, start_s, _ = self._fitted
        # A start that moves on is retention, and changes little; one that moves back is a backfill.
        if known != key or history.start_s < start_s:
            last = round((at_s - history.start_s) / history.step_s)
            first = max(0, last - round(HISTORY_SEASONS * self.season_s / history.step_s))
            season = round(self.season_s / history.step_s)
            model = fit(history.rates[first:last], timing=timing, season=season)
            self._fitted = (key, history.start_s, model)
        return self._fitted[2]

    def is_due(self, seen: Situation, model: TrafficModel, memory: PlannerMemory) -> bool:
        """Whether anything happened that the plan in force did not know."""
        held, history = memory.held, seen.history
        if held is None or history is None:
            return True
        if seen.requested not in (held.workers, held.requested) or seen.ready != held.ready:
            return True
        if history.end_s != held.bin_s:
            waited_s = seen.now_s - held.at_s
            return seen.now_s - history.end_s >= LIVE_FROM * history.step_s or waited_s >= history.step_s
        live = memory.filling.rate_per_s
        if live is None or memory.filling.seconds < LIVE_FROM * history.step_s:
            return False
        level = math.log(live + model.quiet)
        if held.expected is not None:
            level, _ = _glimpsed(memory, level, history.step_s, held.expected, held.surprise)
        return abs(level - math.log(held.live + model.quiet)) > NEWS * held.surprise

    def plan(
        self, seen: Situation, model: TrafficModel, memory: PlannerMemory, *, price: float
    ) -> tuple[Plan, PlannerMemory]:
        """The cheapest pool for what is likely to come."""
        history = seen.history
        assert history is not None  # noqa: S101 - a model has a history
        timing = _timing(seen, history)
        recent = self._recently(model, history, memory)
        live = memory.filling.rate_per_s if memory.filling.seconds >= HEARD_FROM * history.step_s else None
        outlook = before = model.outlook(recent)
        usual, expected = max(before.volatility * model.step1, SURPRISE_MIN), float(before.ahead[0])
        doubt = 0.0
        if live is not None:
            level, doubt = _glimpsed(memory, math.log(live + model.quiet), history.step_s, expected, usual)
            live = max(math.exp(level) - model.quiet, 0.0)
            outlook = model.outlook(recent, live)
        given = _given(seen.forecast, before, outlook, timing, model.quiet, history.end_s)
        scores = memory.scores
        if not math.isnan(history.rates[-1]):  # what fills a gap proves nobody right
            scores = scores.seen(history.end_s, float(recent.levels[recent.bins - 1]))
        first_s = history.end_s + (outlook is not before) * timing.bin_s
        scores = scores.said(_said(outlook, given, timing, first_s))
        if given is not None:
            outlook = outlook.nudged(given, scores.trust, scores.narrowing)
        futures = futures_of(
            model, outlook.widened(doubt), timing, elapsed_s=max(seen.now_s - history.end_s, 0.0), live=live
        )
        choice = Weighing(seen, futures, timing, price, self.explains).choose()
        held = Held(
            choice.workers, Reason.STEADY, {}, seen.now_s, history.end_s,
            live=max(math.exp(outlook.level) - model.quiet, 0.0),
            surprise=max(outlook.volatility * model.step1, SURPRISE_MIN),
            requested=seen.requested, ready=seen.ready, expected=expected,
        )  # fmt: skip
        return Plan(choice, futures), replace(memory, held=held, scores=scores)

    def prepare(self) -> None:
        """Have everything compiled, on made-up days: a first plan takes seconds otherwise."""
        hours = np.arange(1440) % 240 / 240
        rates = 100.0 + 10.0 * hours + np.random.default_rng(0).random(len(hours))
        end_s = 60.0 * len(rates)
        past = TrafficHistory(start_s=0.0, step_s=60.0, rates=rates)
        made_up = Situation(
            now_s=end_s + 10.0, rate_per_s=100.0, lag=0.0, lag_s=0.0, trained_per_s=100.0, requested=2,
            ready=1, busy=None, capacity=Capacity(100.0), slo=Slo(), limits=Limits(), lead_time_s=120.0,
            pause_s=0.0, history=past, starting_since_s=(end_s,),
        )  # fmt: skip
        planner = Planner(season_s=240 * 60.0)
        model, memory = planner.model(made_up, noted(made_up, PlannerMemory(), season_s=planner.season_s))
        assert model is not None  # noqa: S101 - there is history enough
        planner.plan(made_up, model, memory, price=1.0)

    def _recently(self, model: TrafficModel, history: TrafficHistory, memory: PlannerMemory) -> Recent:
        key = (memory.fitted_at_s, history.end_s, history.start_s, id(model))
        known = self._recent[1]
        if self._recent[0] != key or known is None:
            known = model.recent(history.rates)
            self._recent = (key, known)
        return known


def _glimpsed(
    memory: PlannerMemory, seen: float, step_s: float, expected: float, usual: float
) -> tuple[float, float]:
    """Log rate of the bin that is filling, of which so much was seen, and its variance."""
    share = memory.filling.seconds / step_s
    return memory.glimpses.level(seen, share, expected=expected, usual=usual)


def _timing(seen: Situation, history: TrafficHistory) -> Timing:
    lead_time_s, slo_s = max(seen.lead_time_s, 1e-3), max(seen.slo.fresh_within_s, 1e-3)
    return Timing(lead_time_s, slo_s, history.step_s, seen.pause_s)


def _given(  # noqa: PLR0917 - two outlooks and what they are compared with
    forecast: Forecast | None,
    before: Outlook,
    outlook: Outlook,
    timing: Timing,
    quiet: float,
    end_s: float,
) -> Floats | None:
    """The given forecast, told what has been seen since it was made.

    It was made when the last whole bin ended, as `before` was: what it knows that `before` did not is the
    difference of the two. Mixed in as it is, it would take back half of what the live bin has shown.
    """
    if forecast is None:
        return None
    knows = given_path(forecast, timing, quiet, from_s=end_s, many=len(before.ahead)) - before.ahead
    if outlook is not before:  # which begins a bin later
        knows = np.append(knows[1:], knows[-1])
    return np.asarray(outlook.ahead + knows)


def _said(outlook: Outlook, given: Floats | None, timing: Timing, first_s: float) -> Said:
    """What is forecast now for the lead time after `first_s`, to be scored when it has come."""
    at = timing.lead - 1
    due_s = first_s + timing.lead * timing.bin_s
    told = None if given is None else float(given[at])
    return Said(due_s, float(outlook.ahead[at]), told, outlook.volatility**2)
