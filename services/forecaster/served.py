"""Forecasts for all jobs from one fleet, computed in a thread so that no tick waits for a model.

A tick hands in its history and takes the latest forecast. The thread scores what was
said before, asks every model, mixes, and starts a training process when one is due;
new weights are swapped in between two steps. Whatever fails, light models answer in
the tick itself, and the forecast says why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import structlog

from forecasting.calendar import Calendar
from forecasting.fleet import Fleet
from forecasting.forecast import Forecast
from forecasting.grid import Grid
from forecasting.history import TrafficHistory
from forecasting.learned import FleetModel
from forecasting.selector import Score
from services.forecaster.artefacts import ArtefactError, ArtefactInvalid, ArtefactStore
from services.forecaster.lesson import CHEAP, TrainingRequest, missing_for
from services.forecaster.light import LightForecasts
from services.forecaster.trainer import TrainingPhase, TrainingProcess, TrainingState
from services.settings.traffic import ForecastSettings

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """How models are trained and when a forecast is too old."""

    network: str = "patchtst"
    """The network to train; empty for none."""
    beside: tuple[str, ...] = CHEAP
    """Cheap models to train beside it; they are mixed by their live scores."""
    budget_cpu_s: float = 90.0
    retrain_s: float | None = None
    """Between two training runs, by the wall clock; a quarter of a season when None."""
    stale_after_s: float | None = None
    """A served forecast older than this gives way to light models; a tenth of the horizon when None."""
    calendar: Calendar | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """How forecasting does on one topic."""

    model: str
    """The model that leads the mix."""
    score: float | None
    issued_at_s: float
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class ForecastStatus:
    """What the API and the metrics show."""

    version: str
    """Of the trained models in force; empty before the first."""
    rolled_back: str
    """The version that an operator took out of force, until a training beats what serves; else empty."""
    models: tuple[str, ...]
    """Trained models in force."""
    training: TrainingState
    fault: str
    """What went wrong last; empty when all is well."""
    advice: str
    """What is missing for the models that were asked for, and how to get it; empty when nothing is."""
    topics: dict[str, TopicStatus]


class ServedForecasts:
    """A fleet that is forecast together. `source(topic)` is the `ForecastSource` of a job."""

    def __init__(
        self, settings: ForecastSettings, directory: Path, options: ServingOptions | None = None
    ) -> None:
        self.options = options or ServingOptions()
        self._settings = settings
        self._grid = Grid(settings.step_s, settings.horizon_s, settings.season_s)
        self.advice = missing_for(self.options.network, self.options.beside)
        self._store = ArtefactStore(directory)
        self._training = TrainingProcess(directory)
        self._fleet = Fleet(self._grid, calendar=self.options.calendar or Calendar(), rehearses=True)
        self._wake = threading.Condition()
        self._histories: dict[str, TrafficHistory] = {}
        self._served: dict[str, Forecast] = {}
        self._fresh = False
        self._stopping = False
        self._next: tuple[FleetModel, ...] | None = None
        """Trained models to swap in before the next step."""
        self._thread: threading.Thread | None = None
        self._version = ""
        self._rolled_back = ""
        self._refused: set[str] = set()
        self._faults: dict[str, str] = {}
        """By where: what is wrong there now."""
        self._trained_at: float | None = None
        self._topics: set[str] = set()
        self._failure: TrainingState | None = None
        """The failed training that was told of."""

    def start(self) -> None:
        """Load the version in force, if any, and begin to serve."""
        if self.advice:
            log.warning("model_not_trainable", network=self.options.network, why=self.advice)
        self._adopt(self._on_disk())
        self._thread = threading.Thread(target=self._run, name="forecast-serving", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and training if it is under way."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=30)
        self._training.stop()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    def source(self, topic: str) -> TopicForecasts:
        """The forecasts of one topic, as its loop asks for them."""
        return TopicForecasts(self, topic, LightForecasts(self._settings), self._stale_after_s)

    @property
    def _stale_after_s(self) -> float:
        given = self.options.stale_after_s
        return max(3 * self._grid.step_s, self._grid.horizon_s / 10) if given is None else given

    def seen(self, topic: str, history: TrafficHistory) -> Forecast | None:
        """Take a topic's newest history; give the newest forecast, which may be of the step before."""
        with self._wake:
            known = self._histories.get(topic)
            if known is None or known.end_s != history.end_s or known.known != history.known:
                self._histories[topic] = history
                self._fresh = True
                self._wake.notify_all()
            return self._served.get(topic)

    def forget(self, topic: str) -> None:
        """The topic is gone."""
        with self._wake:
            self._histories.pop(topic, None)
            self._served.pop(topic, None)

    def roll_back(self, version: str) -> str:
        """Serve `version` no more: the one before it does, else light models. Told twice, it goes back once.

        It stays so until a training beats what then serves. The version in force is given back; it is
        another's choice already where `version` was not in force. Raises NoArtefact.
        """
        try:
            before = self._store.roll_back(version)
        except (OSError, ArtefactInvalid) as error:  # a full disk must not take the job's loop with it
            self._tell("rollback", f"version {version} cannot be rolled back: {error}")
            return self._version
        self._refused.add(version)
        self._rolled_back = self._store.rolled_back() or ""
        if self._version == version:
            log.warning("trained_models_rolled_back", version=version, to=before or "light models")
            self.use((), "")  # also where the one before turns out to be unreadable
            self._adopt(before)
        return self._version

    def scores(self, topic: str) -> tuple[Score, ...]:
        """How every model has done on a topic lately."""
        with self._wake:
            fleet = self._fleet
        return fleet.scores(topic)

    def status(self, *, topics: bool = True) -> ForecastStatus:
        """How training and serving do; without `topics` it costs the same for one as for thousands."""
        with self._wake:
            fleet, served = self._fleet, dict(self._served) if topics else {}
        return ForecastStatus(
            version=self._version,
            rolled_back=self._rolled_back,
            models=tuple(model.name for model in fleet.learned),
            training=self._training.state,
            fault="; ".join(self._faults.values()),
            advice=self.advice,
            topics={
                topic: TopicStatus(ahead.model, ahead.score, ahead.issued_at_s, fleet.scores(topic))
                for topic, ahead in served.items()
            },
        )

    def use(self, learned: Sequence[FleetModel], version: str) -> None:
        """Swap the trained models; the next step is theirs."""
        with self._wake:
            self._next = tuple(learned)
            self._version = version
            self._fresh = bool(self._histories)
            self._wake.notify_all()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._fresh or self._stopping, timeout=1.0)
                if self._stopping:
                    return
                fresh, self._fresh = self._fresh, False
                if self._next is not None:  # between two steps: the scores are nobody else's now
                    self._fleet, self._next = self._fleet.with_learned(self._next), None
                fleet, histories = self._fleet, dict(self._histories)
            if fresh:
                self._step(fleet, histories)
            self._train_when_due(histories)

    def _step(self, fleet: Fleet, histories: dict[str, TrafficHistory]) -> None:
        try:
            served = fleet.forecast(histories)
        except Exception as error:
            # Whatever it is, light models answer and it is told: the thread must live.
            self._tell("serving", f"serving failed: {type(error).__name__}: {error}")
            log.exception("forecast_failed", topics=len(histories))
            return
        self._tell("serving", "; ".join(f"{model} failed: {why}" for model, why in fleet.faults.items()))
        with self._wake:
            self._served |= {topic: ahead for topic, ahead in served.items() if topic in self._histories}

    def _tell(self, where: str, fault: str) -> None:
        """Keep a fault for operators, logged when it is news; an empty one is over."""
        if fault == self._faults.get(where, ""):
            return
        # Replaced, not changed: an operator's status may be reading it.
        self._faults = {name: why for name, why in self._faults.items() if name != where}
        if fault:
            self._faults = {**self._faults, where: fault}
            log.warning("forecasting_at_fault", where=where, fault=fault)

    def _train_when_due(self, histories: dict[str, TrafficHistory]) -> None:
        state = self._training.state
        if state.phase is TrainingPhase.DONE and state.version not in (self._version, *self._refused):
            self._refused.add(state.version)  # looked at once, whatever comes of it
            self._tell("training", "")
            if self._on_disk() == state.version:
                self._adopt(state.version)
            else:
                log.warning("trained_models_rejected", version=state.version, rejected=state.rejected)
        if state.phase is TrainingPhase.FAILED and state is not self._failure:
            self._failure = state
            self._tell("training", state.error)
        if self._training.running or not self._due(histories):
            return
        self._trained_at = time.monotonic()
        request = TrainingRequest(
            self._grid,
            network=self.options.network,
            beside=self.options.beside,
            calendar=self.options.calendar or Calendar(),
            budget_cpu_s=self.options.budget_cpu_s,
            seed=self.options.seed,
        )
        log.info("training_started", topics=len(histories), network=self.options.network)
        self._training.start(request, histories, within_s=self._training_within_s)

    @property
    def _retrain_s(self) -> float:
        return self.options.retrain_s or self._grid.season_s / 4

    @property
    def _training_within_s(self) -> float:
        """By the clock: until the next is due, or what the budget takes on a twentieth of a core."""
        return max(self._retrain_s, 20 * self.options.budget_cpu_s)

    def _due(self, histories: dict[str, TrafficHistory]) -> bool:
        season = self._grid.season
        enough = any(history.known >= 2 * season + self._grid.reach for history in histories.values())
        # Jobs come one by one at the start: train when no new one came since the last look.
        settled, self._topics = self._topics == histories.keys(), set(histories)
        if not settled:
            return False
        return enough and (self._trained_at is None or time.monotonic() - self._trained_at >= self._retrain_s)

    def _on_disk(self) -> str | None:
        """The version that the disk says is in force; one that cannot be read leaves the models in force."""
        try:
            self._rolled_back = self._store.rolled_back() or ""
            return self._store.current()
        except ArtefactError as error:
            self._tell("weights", str(error))
            return None

    def _adopt(self, version: str | None) -> None:
        """Load a version and swap it in; one that cannot be loaded leaves the models in force."""
        if version is None:
            return
        try:
            manifest, models = self._store.load(version, self._grid, self.options.calendar)
        except ArtefactError as error:
            self._tell("weights", f"version {version} cannot be used: {error}")
            return
        self._faults = {}
        self._rolled_back = self._store.rolled_back() or ""
        self.use(models, version)
        log.info("trained_models_swapped", version=version, models=manifest.models)


class TopicForecasts:
    """The `ForecastSource` of one topic: the served forecast while it is fresh, else a light one."""

    def __init__(
        self, fleet: ServedForecasts, topic: str, light: LightForecasts, stale_after_s: float
    ) -> None:
        self._fleet = fleet
        self._topic = topic
        self._light = light
        self._stale_after_s = stale_after_s
        self._asked_at_s: float | None = None
        """For the first time with something measured. A fleet that serves nothing since is late too."""

    def forecast(self, history: TrafficHistory) -> Forecast | None:
        """Answers at once. None when nothing was measured yet."""
        served = self._fleet.seen(self._topic, history)
        if served is not None and history.end_s - served.issued_at_s <= self._stale_after_s:
            return served
        light = self._light.forecast(history)
        if light is None:
            return None
        if self._asked_at_s is None:
            self._asked_at_s = history.end_s
        age_s = history.end_s - (self._asked_at_s if served is None else served.issued_at_s)
        if age_s <= self._stale_after_s:
            return light
        late = f"the served forecast is {age_s:g} s old" if served else f"nothing was served for {age_s:g} s"
        return replace(light, trouble=f"{late}; {light.model} stands in")
