"""Forecasts in a running controller: never late, never silent, whatever fails behind them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from forecasting.batch import Batch
from forecasting.features import Features
from forecasting.learned import Quantiles
from services.control.ports import ForecastSource
from services.forecaster.served import ServedForecasts, ServingOptions
from services.forecaster.trainer import TrainingPhase, TrainingProcess, TrainingState
from services.settings.traffic import ForecastSettings
from tests.forecasting.test_artefacts import written
from tests.forecasting.worlds import GRID, STEP_S, history, regression, rhythm, untrained_patchtst
from tests.waiting import eventually

SETTINGS = ForecastSettings(step_s=STEP_S, horizon_s=GRID.horizon_s)
NEVER = ServingOptions(network="", retrain_s=1e9, budget_cpu_s=30.0)


class Untrainable(ServedForecasts):
    """Serves, but never starts a training process."""

    def _due(self, histories: object) -> bool:
        return False


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Untrainable]:
    served = Untrainable(SETTINGS, tmp_path, NEVER)
    served.start()
    yield served
    served.stop()


def ask(served: ServedForecasts, topic: str, days: float, *, of: str = "") -> str:
    """The model that answers for `days` of rhythm, once it is not (or is) the light one."""

    def answered() -> str:
        ahead = served.source(topic).forecast(history(rhythm(days)))
        assert ahead is not None
        assert not of or ahead.model == of
        assert served.status().topics
        return ahead.model

    return eventually(answered, what=f"{topic} to be forecast {of}")


def test_the_first_tick_gets_a_light_forecast_at_once(serving: Untrainable) -> None:
    source: ForecastSource = serving.source("a")

    ahead = source.forecast(history(rhythm(3)))

    assert ahead is not None


def test_nothing_measured_is_no_forecast(serving: Untrainable) -> None:
    assert serving.source("a").forecast(history(np.full(5, np.nan))) is None


def test_all_topics_are_served_from_one_call(serving: Untrainable) -> None:
    for topic in "abc":
        serving.source(topic).forecast(history(rhythm(3)))

    eventually(lambda: serving.status().topics.keys() == {"a", "b", "c"}, what="three topics")


class Broken:
    """A model that fails in the given way."""

    name = "broken"
    needs = 1

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.release = threading.Event()

    def quantiles(self, batch: Batch, features: Features) -> Quantiles:
        if self._error is not None:
            raise self._error
        self.release.wait(60)
        return np.full((len(batch), 2, len(GRID.leads), 5), np.nan)


def test_a_model_that_raises_leaves_the_light_ones_and_the_fault_is_visible(serving: Untrainable) -> None:
    ask(serving, "a", 3)
    serving.use([Broken(MemoryError("no more"))], "bad")

    def fails() -> str:
        serving.source("a").forecast(history(rhythm(3.1)))
        return serving.status().fault

    assert "MemoryError: no more" in eventually(fails, what="the fault to be told")
    late = serving.source("a").forecast(history(rhythm(4)))
    assert late is not None
    assert "stands in" in late.trouble


def test_a_model_that_hangs_makes_no_tick_wait(serving: Untrainable) -> None:
    ask(serving, "a", 3)
    slow = Broken()
    serving.use([slow], "slow")

    late = serving.source("a").forecast(history(rhythm(4)))

    assert late is not None
    assert "s old" in late.trouble
    slow.release.set()


def test_a_model_that_hangs_from_the_start_is_told_of_too(serving: Untrainable) -> None:
    slow, source = Broken(), serving.source("a")
    serving.use([slow], "slow")

    begun, late = source.forecast(history(rhythm(3))), source.forecast(history(rhythm(4)))

    assert begun is not None
    assert begun.trouble == ""
    assert late is not None
    assert late.trouble == "nothing was served for 86400 s; seasonal stands in"
    slow.release.set()


def test_a_model_that_answers_nonsense_is_not_heard(serving: Untrainable) -> None:
    nonsense = Broken()
    nonsense.release.set()
    serving.use([nonsense], "nonsense")

    assert ask(serving, "a", 3) != "broken"


def test_new_weights_are_swapped_in_while_ticks_go_on(serving: Untrainable, tmp_path: Path) -> None:
    stop = threading.Event()
    gaps: list[int] = []

    def tick() -> None:
        bins = 0
        while not stop.is_set():
            bins += 1
            if serving.source("a").forecast(history(rhythm(3 + bins / 288))) is None:
                gaps.append(bins)

    ticking = threading.Thread(target=tick)
    ticking.start()
    for version in range(20):
        serving.use([regression()] if version % 2 else [regression(), untrained_patchtst()], str(version))
    eventually(lambda: serving.status().models == ("regression",), what="the last swap")
    stop.set()
    ticking.join()

    assert gaps == []
    assert serving.status().fault == ""


def test_the_version_in_force_is_loaded_at_the_start_and_can_be_rolled_back(tmp_path: Path) -> None:
    served = Untrainable(SETTINGS, tmp_path, NEVER)
    written(served._store, "1")
    written(served._store, "2")
    served.start()
    try:
        assert served.status().version == "2"
        assert served.roll_back("2") == "1"
        assert served.roll_back("2") == "1"
        ask(served, "a", 9)
        assert (served.status().version, served.status().rolled_back) == ("1", "2")
        eventually(lambda: "patchtst" in served.status().models, what="the models of version 1")
    finally:
        served.stop()


def test_a_version_that_was_rolled_back_stays_away_after_a_restart(tmp_path: Path) -> None:
    before = Untrainable(SETTINGS, tmp_path, NEVER)
    written(before._store, "1")
    written(before._store, "2")
    before.roll_back("2")

    served = Untrainable(SETTINGS, tmp_path, NEVER)
    served.start()
    try:
        assert (served.status().version, served.status().rolled_back) == ("1", "2")
    finally:
        served.stop()


def test_a_rollback_that_cannot_be_written_down_is_a_fault_to_be_seen(tmp_path: Path) -> None:
    served = Untrainable(SETTINGS, tmp_path, NEVER)
    written(served._store, "1")
    (tmp_path / "versions" / "1" / "refused").mkdir()  # where the mark is to be written
    served.start()
    try:
        assert served.roll_back("1") == "1"
        assert "version 1 cannot be rolled back" in served.status().fault
    finally:
        served.stop()


@pytest.mark.parametrize("spoilt", [False, True], ids=["none before", "unreadable before"])
def test_where_nothing_can_be_gone_back_to_light_models_serve(tmp_path: Path, *, spoilt: bool) -> None:
    served = Untrainable(SETTINGS, tmp_path, NEVER)
    if spoilt:
        written(served._store, "1")
        (tmp_path / "versions" / "1" / "regression.npz").write_bytes(b"")
    written(served._store, "2")
    served.start()
    try:
        eventually(lambda: "patchtst" in served.status().models, what="the trained models")
        assert served.roll_back("2") == ""
        assert ask(served, "a", 9) in {"last-value", "mean-max", "seasonal"}
        assert served.status().models == ()
    finally:
        served.stop()


def test_weights_that_cannot_be_loaded_leave_light_models_and_a_fault(tmp_path: Path) -> None:
    served = Untrainable(SETTINGS, tmp_path, NEVER)
    written(served._store, "1")
    (tmp_path / "versions" / "1" / "regression.npz").write_bytes(b"")
    served.start()
    try:
        assert "truncated or was altered" in served.status().fault
        assert ask(served, "a", 3) in {"last-value", "mean-max", "seasonal"}
    finally:
        served.stop()


@pytest.mark.parametrize(
    "name", [b"\xff\xfe", b"1" * 300, b"", None], ids=["bytes", "long", "empty", "directory"]
)
def test_a_name_of_the_version_in_force_that_is_none_stops_no_controller(
    tmp_path: Path, name: bytes | None
) -> None:
    served = Untrainable(SETTINGS, tmp_path, NEVER)
    written(served._store, "1")
    (tmp_path / "current").unlink()
    if name is None:
        (tmp_path / "current").mkdir()
    else:
        (tmp_path / "current").write_bytes(name)
    served.start()
    try:
        assert bool(served.status().fault) == (name != b"")
        assert ask(served, "a", 3) in {"last-value", "mean-max", "seasonal"}
    finally:
        served.stop()


def test_a_topic_that_returns_is_forecast_again(serving: Untrainable) -> None:
    ask(serving, "a", 3)
    serving.forget("a")
    serving.source("b").forecast(history(rhythm(3)))
    eventually(lambda: serving.status().topics.keys() == {"b"}, what="a to be gone")

    serving.source("a").forecast(history(rhythm(3.5)))

    eventually(lambda: "a" in serving.status().topics, what="a to be back")


def test_training_in_the_background_ends_in_trained_models_being_served(tmp_path: Path) -> None:
    options = ServingOptions(
        network="", beside=("regression", "perceptron"), budget_cpu_s=30.0, retrain_s=1e9
    )
    served = ServedForecasts(SETTINGS, tmp_path, options)
    served.start()
    try:
        source, past = served.source("a"), history(rhythm(6))

        def trained() -> bool:
            source.forecast(past)
            assert served.status().training.phase is not TrainingPhase.FAILED, served.status().fault
            return bool(served.status().models)

        eventually(trained, within_s=150, every_s=0.2, what="trained models in force")
        assert served.status().version
        assert served.status().fault == ""

        def mixed() -> bool:
            ahead = source.forecast(past)
            return ahead is not None and any(ahead.shares.get(m, 0) > 0 for m in served.status().models)

        eventually(mixed, what="the trained models to have a say")
    finally:
        served.stop()
    assert not list(tmp_path.glob(".training-*"))


def test_a_training_process_that_is_killed_leaves_the_models_in_force(tmp_path: Path) -> None:
    served = ServedForecasts(SETTINGS, tmp_path, ServingOptions(network="", retrain_s=1e9))
    written(served._store, "1")
    served.start()
    try:

        def pid() -> int | None:
            served.source("a").forecast(history(rhythm(6)))
            return served._training.pid

        os.kill(eventually(pid, within_s=60, what="training to start") or 0, signal.SIGKILL)
        eventually(lambda: "SIGKILL" in served.status().fault, within_s=60, what="the fault to be told")

        assert served.status().version == "1"
        assert "out of memory" in served.status().fault
    finally:
        served.stop()
    assert served._store.versions() == ["1"]


def test_a_training_that_cannot_begin_leaves_serving_alone_and_says_why(tmp_path: Path) -> None:
    served = ServedForecasts(SETTINGS, tmp_path, ServingOptions(network="", retrain_s=1e9))
    served._training = TrainingProcess(tmp_path, python=str(tmp_path / "no-such-program"))
    served.start()
    try:
        ask(served, "a", 6)
        fault = eventually(lambda: served.status().fault, what="the fault to be told")
        assert "training could not begin" in fault
        later = history(rhythm(6.1))

        def served_at_s() -> float:
            ahead = served.seen("a", later)
            return 0.0 if ahead is None else ahead.issued_at_s

        eventually(lambda: served_at_s() == later.end_s, what="another step")
    finally:
        served.stop()
    assert not list(tmp_path.glob(".training-*"))


def test_a_training_that_is_done_ends_the_fault_of_the_one_before(serving: Untrainable) -> None:
    serving._training._set(TrainingState(TrainingPhase.FAILED, error="training was ended by SIGKILL"))
    eventually(lambda: serving.status().fault, what="the fault to be told")

    serving._training._set(TrainingState(TrainingPhase.DONE, version="2", rejected=("regression",)))

    eventually(lambda: not serving.status().fault, what="the fault to be over")


def test_training_ends_with_its_controller(tmp_path: Path) -> None:
    served = ServedForecasts(SETTINGS, tmp_path, ServingOptions(network="", retrain_s=1e9))
    served.start()

    def pid() -> int | None:
        served.source("a").forecast(history(rhythm(6)))
        return served._training.pid

    child = eventually(pid, within_s=60, what="training to start")
    served.stop()

    assert child is not None
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
