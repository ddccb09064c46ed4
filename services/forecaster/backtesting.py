"""Train every model asked for on the first part of a trace, and test them all on the rest."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from forecasting.boosting import train_boosting
from forecasting.calendar import Calendar
from forecasting.errors import ForecastError
from forecasting.evaluation import SERVED, Backtest, Result, backtest, results_of
from forecasting.grid import Grid
from forecasting.heavy import heavy
from forecasting.history import TrafficHistory
from forecasting.learned import ROWS_MIN, FleetModel, Lessons, lessons_from
from forecasting.network import spec_named
from forecasting.network_lessons import STEPS_CONVERGED, Effort
from forecasting.network_training import train_network
from forecasting.perceptron import train_perceptron
from forecasting.regression import train_regression
from forecasting.torch_network import TorchNetwork, runnable
from forecasting.window import WINDOWS, train_window

LIGHT = ("last-value", "mean-max", "seasonal", "boosting")
"""The light models; boosting is the strongest of them, so ratios are given with and without it."""

UNTRAINED = tuple(name for name in LIGHT if name != "boosting")
"""They are tested whatever is asked for."""

DEFAULT_MODELS = ("regression", *WINDOWS, "boosting", "patchtst")
"""What a controller trains and mixes where nothing else is asked for."""

Tell = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class BacktestPlan:
    """What to test, and how hard to train."""

    horizon_s: float = 3600.0
    season_s: float = 86_400.0
    test_days: float | None = None
    """Seasons to test on; a quarter of the trace, at most seven, when None."""
    models: tuple[str, ...] = ()
    """Models to train, by name; those that are served by default when empty."""
    served: tuple[str, ...] | None = None
    """Which of them the selector may use; all when None."""
    steps: int | None = None
    """Of training a network; as its settings say when None."""
    network_cpu_s: float = 60.0
    converging_cpu_s: Mapping[str, float] = field(default_factory=dict)
    """Networks that are trained until they have converged, or this many CPU-seconds have passed."""
    calendar: Calendar = field(default_factory=Calendar)
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A backtest with its table."""

    test: Backtest
    results: dict[str, Result]
    cpu_s: dict[str, float]
    """What training each model cost."""
    converged: dict[str, bool]
    """By network: whether it was trained until the loss on rows held out stopped falling."""
    skipped: dict[str, str]
    """Models that could not be trained, and why."""
    trained_to_s: float

    def ratio(self, which: str, *, among: Sequence[str]) -> float:
        """A figure of what was served over that of the best single model of `among`."""
        best = min((getattr(self.results[m], which) for m in among if m in self.results), default=math.nan)
        return float(getattr(self.results[SERVED], which) / max(best, 1e-300))


def grid_for(history: TrafficHistory, plan: BacktestPlan) -> Grid:
    """Forecasts reach a quarter beyond the horizon, for the peak after the last lead."""
    return Grid(history.step_s, 1.25 * plan.horizon_s, plan.season_s)


def run_backtest(history: TrafficHistory, plan: BacktestPlan, tell: Tell) -> Outcome:
    """Training sees nothing of the test nor of the season before it, which warms up the scores."""
    grid = grid_for(history, plan)
    test_from = _test_from(history, grid, plan)
    trained_to = max(test_from - min(grid.season, test_from // 2), 0)
    past = replace(history, rates=history.rates[:trained_to])
    tell("reading", 0.0)
    lessons = lessons_from(grid, {"trace": past}, plan.calendar)
    models: list[FleetModel] = []
    cpu_s: dict[str, float] = {}
    converged: dict[str, bool] = {}
    skipped: dict[str, str] = {}
    for name in dict.fromkeys(name.lower() for name in plan.models or DEFAULT_MODELS):
        if name in UNTRAINED:
            continue
        started_s = time.process_time()
        try:
            model = _trained(name, lessons, grid, plan, tell)
            models.append(model)
            if isinstance(model, TorchNetwork):
                converged[name] = model.trained.converged
        except ForecastError as error:
            skipped[name] = str(error)
        cpu_s[name] = time.process_time() - started_s
    mixed = [m.name for m in models] if plan.served is None else list(plan.served)
    test = backtest(
        grid,
        history,
        models,
        plan.calendar,
        test_from=test_from,
        stride=grid.bins(10),
        mixed=mixed,
        tell=lambda share: tell("testing", share),
    )
    results = {} if np.isnan(test.came).all() else {result.model: result for result in results_of(test)}
    if SERVED not in results:
        raise ForecastError("nothing was measured while models were tested; give more --test-days")
    return Outcome(test, results, cpu_s, converged, skipped, past.end_s)


def _test_from(history: TrafficHistory, grid: Grid, plan: BacktestPlan) -> int:
    if grid.season_s < 2 * grid.step_s:
        raise ForecastError(
            f"a season of {grid.season_s:g} s is less than two bins of {grid.step_s:g} s; give a longer one"
        )
    if plan.test_days is not None and not 0 < plan.test_days < math.inf:
        raise ForecastError(f"--test-days is {plan.test_days:g}; give a number of seasons above 0")
    bins = len(history.rates)
    wanted = (
        min(7 * grid.season, bins // 4) if plan.test_days is None else round(plan.test_days * grid.season)
    )
    start = bins - max(wanted, 1)
    if start < 4 * grid.bins(60) or bins - start < grid.reach + 1:
        raise ForecastError(
            f"the trace has {bins} bins of {grid.step_s:g} s: too short to test on {wanted} of them; "
            "give a longer trace, fewer --test-days or a shorter --horizon"
        )
    return start


def _trained(name: str, lessons: Lessons, grid: Grid, plan: BacktestPlan, tell: Tell) -> FleetModel:
    tell(name, 0.0)
    if len(lessons) < ROWS_MIN:
        raise ForecastError(f"{name}: {len(lessons)} origins before the test are too few to learn from")
    if name == "regression":
        return train_regression(lessons, seed=plan.seed)
    if name == "perceptron":
        return train_perceptron(lessons, seed=plan.seed)
    if name in WINDOWS:
        return train_window(lessons, name=name, seed=plan.seed)
    if name == "boosting":
        return train_boosting(lessons, seed=plan.seed)
    if spec_named(name).architecture != "PatchTST":
        heavy("torch").set_num_threads(1)
    started_s = time.process_time()
    budget_cpu_s = plan.converging_cpu_s.get(name, plan.network_cpu_s)
    effort = Effort(
        steps=STEPS_CONVERGED if name in plan.converging_cpu_s else plan.steps,
        used=lambda: (time.process_time() - started_s) / budget_cpu_s,
        tell=lambda share, _loss: tell(name, share),
        seed=plan.seed,
        until_converged=name in plan.converging_cpu_s,
    )
    return runnable(train_network(lessons, spec_named(name), plan.calendar, effort), grid, plan.calendar)
