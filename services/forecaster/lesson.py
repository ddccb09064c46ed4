"""One training run: from histories to a version on disk. Runs in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from forecasting.boosting import Boosting, train_boosting
from forecasting.calendar import Calendar
from forecasting.errors import NotEnoughHistory
from forecasting.grid import Grid
from forecasting.heavy import MissingPackage, installed, missing
from forecasting.history import TrafficHistory
from forecasting.learned import ROWS_MIN, FleetModel, Lessons, lessons_from
from forecasting.network import NetworkSpec, Weights, spec_named
from forecasting.network_lessons import Effort, TrainedNetwork
from forecasting.network_training import exported, train_network
from forecasting.perceptron import Perceptron, train_perceptron
from forecasting.regression import Regression, train_regression
from forecasting.torch_network import runnable
from forecasting.window import WINDOWS, Window, train_window
from services.forecaster.artefacts import ArtefactError, ArtefactStore, Manifest
from services.forecaster.judging import judge

CHEAP = ("regression", *WINDOWS, "boosting")
"""Trained where nothing else is asked for; `perceptron`, on features alone, adds nothing to the windows."""
NETWORK_SHARE = 0.85
"""Of the budget, by when the network must be done: judging takes the rest."""
LOSS_MAX = 1.0
"""A trained model must not lose to the best light model on the day held out."""


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What to train."""

    grid: Grid
    network: str = "patchtst"
    """A network by name; empty trains none."""
    beside: tuple[str, ...] = CHEAP
    """Cheap models trained beside it."""
    calendar: Calendar = field(default_factory=Calendar)
    budget_cpu_s: float = 90.0
    steps: int | None = None
    """Of training the network; as its settings say when None."""
    seed: int = 0


Tell = Callable[[str, float], None]
"""Told the stage and the share of the budget used."""


def train(
    request: TrainingRequest, histories: Mapping[str, TrafficHistory], directory: Path, tell: Tell
) -> Manifest:
    """Train on all but the last season, judge on that, write a version; publish it if anything is better.

    The version says which models were rejected. Raises NotEnoughHistory when there is nothing to learn.
    """
    started_s = time.process_time()
    grid = request.grid
    past = {topic: _without_last(history, grid.season) for topic, history in histories.items()}
    tell("reading", 0.0)
    lessons = lessons_from(grid, past, request.calendar)
    if len(lessons) < ROWS_MIN:
        known_s = max((history.known * grid.step_s for history in histories.values()), default=0.0)
        raise NotEnoughHistory("training", have_s=known_s, need_s=2 * grid.season_s)
    store = ArtefactStore(directory)
    fitted = _fit(request, lessons, store, started_s, tell)
    tell("judging", _used(started_s, request))
    losses = judge(grid, histories, fitted.models(grid, request.calendar), request.calendar)
    accepted = _accepted(request, histories, store, losses)
    manifest = Manifest(
        version=f"{round(time.time() * 1000):014d}",
        step_s=grid.step_s,
        horizon_s=grid.horizon_s,
        season_s=grid.season_s,
        trained_to_s=max(history.end_s for history in past.values()),
        cpu_s=time.process_time() - started_s,
        topics=len(histories),
        models=accepted,
        networks=() if fitted.network is None else (asdict(fitted.network.spec),),
        losses=losses,
        rejected=tuple(name for name in losses if name not in accepted),
    )
    store.write(
        manifest,
        regression=fitted.regression,
        perceptron=fitted.perceptron,
        windows=fitted.windows,
        boosting=fitted.boosting,
        networks=[fitted.network] if fitted.network else [],
        programs=fitted.programs,
    )
    if accepted:
        store.publish(manifest.version)
    store.tidy()
    tell("done", 1.0)
    return manifest


def _accepted(
    request: TrainingRequest,
    histories: Mapping[str, TrafficHistory],
    store: ArtefactStore,
    losses: Mapping[str, float],
) -> tuple[str, ...]:
    """The models that beat the light ones; none after a rollback while what was gone back to is better."""
    accepted = tuple(name for name, loss in losses.items() if loss <= LOSS_MAX)
    current = store.current()
    if store.rolled_back() is None or current is None:
        return accepted
    try:
        _, kept = store.load(current, request.grid, request.calendar)
    except ArtefactError:
        return accepted  # what cannot be loaded does not serve either
    standing = judge(request.grid, histories, kept, request.calendar)
    best = min(standing.values(), default=LOSS_MAX)
    return accepted if min(losses.values(), default=float("inf")) < best else ()


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """What came out of a training run; None where a model was not asked for or cannot be trained here."""

    regression: Regression | None
    perceptron: Perceptron | None
    windows: tuple[Window, ...]
    boosting: Boosting | None
    network: TrainedNetwork | None

    programs: Mapping[str, bytes]
    """The network as an exported program, where numpy cannot run it."""

    def models(self, grid: Grid, calendar: Calendar) -> list[FleetModel]:
        found: list[FleetModel | None] = [self.regression, self.perceptron, *self.windows, self.boosting]
        if self.network is not None:
            found.append(runnable(self.network, grid, calendar))
        return [model for model in found if model is not None]


def _fit(
    request: TrainingRequest, lessons: Lessons, store: ArtefactStore, started_s: float, tell: Tell
) -> _Fitted:
    """Cheap models first; the network has what is left of the budget."""

    def wanted(name: str) -> bool:
        tell(name, _used(started_s, request))
        return name in request.beside

    seed = request.seed
    cheap = _Fitted(
        regression=train_regression(lessons, seed=seed) if wanted("regression") else None,
        perceptron=train_perceptron(lessons, seed=seed) if wanted("perceptron") else None,
        windows=_train_windows(lessons, [name for name in WINDOWS if wanted(name)], seed=seed),
        boosting=_train_boosting(lessons, seed=seed) if wanted("boosting") else None,
        network=None,
        programs={},
    )
    network = _train_network(request, lessons, store, started_s, tell)
    if network is None:
        return cheap
    by_numpy = network.spec.architecture == "PatchTST"
    programs = {} if by_numpy else {network.spec.name: exported(network, lessons.grid)}
    return replace(cheap, network=network, programs=programs)


def _train_boosting(lessons: Lessons, *, seed: int) -> Boosting | None:
    """None where LightGBM cannot be loaded, which the controller tells at its start."""
    try:
        return train_boosting(lessons, seed=seed)
    except MissingPackage:
        return None


def _train_windows(lessons: Lessons, names: Sequence[str], *, seed: int) -> tuple[Window, ...]:
    """None where the past is too short for them."""
    try:
        return tuple(train_window(lessons, name=name, seed=seed) for name in names)
    except NotEnoughHistory:
        return ()


def _without_last(history: TrafficHistory, bins: int) -> TrafficHistory:
    return replace(history, rates=history.rates[: max(len(history.rates) - bins, 0)])


def _used(started_s: float, request: TrainingRequest) -> float:
    return (time.process_time() - started_s) / request.budget_cpu_s


def _train_network(
    request: TrainingRequest, lessons: Lessons, store: ArtefactStore, started_s: float, tell: Tell
) -> TrainedNetwork | None:
    """The network, warm-started where an earlier one fits; None where the package or the past is missing."""
    if not request.network or missing_for(request.network):
        return None
    spec = spec_named(request.network)
    used = _used(started_s, request)
    left = max(NETWORK_SHARE - used, 0.05)
    effort = Effort(
        steps=request.steps,
        used=lambda: (_used(started_s, request) - used) / left,
        tell=lambda share, loss: tell(f"{spec.name} {loss:.4f}", used + share * left),
        seed=request.seed,
    )
    try:
        return train_network(lessons, spec, request.calendar, effort, start=_last_weights(store, spec))
    except NotEnoughHistory:
        return None


def missing_for(network: str, beside: Collection[str] = ()) -> str:
    """What is missing to train this network and the models beside it, in words; empty when nothing is.

    >>> missing_for("patchtst")
    ''
    """
    found = []
    if network and spec_named(network).architecture != "PatchTST":  # which numpy trains
        absent = [package for package in ("torch", "neuralforecast") if not installed(package)]
        found += [f"{network} cannot be trained: {MissingPackage(package)}" for package in absent[:1]]
    if "boosting" in beside and (why := missing("lightgbm")):
        found.append(f"boosting cannot be trained: {why}")
    return "; ".join(found)


def _last_weights(store: ArtefactStore, spec: NetworkSpec) -> Weights | None:
    try:
        current = store.current()
        if current is None:
            return None
        store.manifest(current)
        return store.network(store.directory / "versions" / current, spec)[1]
    except (ArtefactError, OSError, ValueError, KeyError):
        return None  # a cold start costs time, nothing else
