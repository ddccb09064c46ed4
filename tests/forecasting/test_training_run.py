"""A training run: what it may cost, what judges it, and what is rejected."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from forecasting.batch import batch_of
from forecasting.calendar import Calendar
from forecasting.errors import NotEnoughHistory
from forecasting.features import describe
from forecasting.forecast import LEVELS
from forecasting.grid import KINDS, Grid
from forecasting.history import Rates, TrafficHistory
from forecasting.learned import Lessons
from forecasting.perceptron import train_perceptron
from forecasting.regression import Regression, train_regression
from forecasting.residuals import Indices
from forecasting.window import WINDOWS, train_window
from services.forecaster import judging, lesson
from services.forecaster.artefacts import ArtefactStore
from services.forecaster.judging import JUDGED_TOPICS, judge
from services.forecaster.lesson import TrainingRequest, train
from services.forecaster.train import write_request
from services.forecaster.trainer import TrainingPhase, TrainingProcess
from tests.forecasting.test_artefacts import written
from tests.forecasting.worlds import DAY, GRID, history, regression, rhythm

REQUEST = TrainingRequest(GRID, network="", beside=("regression",))


def far_too_high(model: Regression) -> Regression:
    """Some seven times what it should say."""
    weights = model.weights.copy()
    weights[:, -1] += 2.0
    return replace(model, weights=weights)


def test_a_model_that_loses_to_the_light_ones_is_rejected_and_the_version_in_force_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ArtefactStore(tmp_path)
    written(store, "1")

    def misled(lessons: Lessons, *, seed: int) -> Regression:
        return far_too_high(train_regression(lessons, seed=seed))

    monkeypatch.setattr(lesson, "train_regression", misled)

    manifest = train(REQUEST, {"a": history(rhythm(5))}, tmp_path, lambda _stage, _share: None)

    assert manifest.rejected == ("regression",)
    assert manifest.models == ()
    assert manifest.losses["regression"] > 1.0
    assert store.current() == "1"


@pytest.mark.parametrize(("now", "takes_over"), [(0.6, True), (0.8, False)])
def test_after_a_rollback_a_training_has_to_beat_what_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, now: float, takes_over: bool
) -> None:
    store = ArtefactStore(tmp_path)
    older, bad = "00000000000001", "00000000000002"  # as long as the names that training gives
    written(store, older)
    written(store, bad)
    store.roll_back(bad)
    said = iter([{"regression": now}, {"regression": 0.9, "patchtst": 0.7}])
    monkeypatch.setattr(lesson, "judge", lambda *_: next(said))

    manifest = train(REQUEST, {"a": history(rhythm(4))}, tmp_path, lambda _stage, _share: None)

    assert store.current() == (manifest.version if takes_over else older)
    assert store.rolled_back() == (None if takes_over else bad)
    assert manifest.rejected == (() if takes_over else ("regression",))


def test_one_bad_model_does_not_take_the_good_one_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = replace(REQUEST, beside=("regression", "perceptron"))
    losses = {"regression": 0.7, "perceptron": 1.3}
    monkeypatch.setattr(lesson, "judge", lambda *_: losses)
    monkeypatch.setattr(lesson, "train_perceptron", partial(train_perceptron, batch=8))  # quick

    manifest = train(request, {"a": history(rhythm(4))}, tmp_path, lambda _stage, _share: None)

    store = ArtefactStore(tmp_path)
    assert store.current() == manifest.version
    assert [model.name for model in store.load(manifest.version, GRID)[1]] == ["regression"]
    assert manifest.rejected == ("perceptron",)


def test_windows_are_kept_and_served_like_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = replace(REQUEST, beside=WINDOWS)
    monkeypatch.setattr(lesson, "judge", lambda *_: dict.fromkeys(WINDOWS, 0.9))
    monkeypatch.setattr(lesson, "train_window", partial(train_window, steps=50))  # quick

    manifest = train(request, {"a": history(rhythm(5))}, tmp_path, lambda _stage, _share: None)

    _, models = ArtefactStore(tmp_path).load(manifest.version, GRID)
    assert [(model.name, model.needs) for model in models] == [(name, 192) for name in WINDOWS]
    batch = batch_of(GRID, [history(rhythm(5))])
    said = [model.quantiles(batch, describe(batch, Calendar())) for model in models]
    for one, other in pairwise(said):
        assert not np.allclose(one, other, rtol=1e-3), "two are the same"


def test_a_past_too_short_for_the_window_leaves_the_others(tmp_path: Path) -> None:
    request = replace(REQUEST, beside=("regression", "window"))

    manifest = train(request, {"a": history(rhythm(1.8))}, tmp_path, lambda _stage, _share: None)

    assert set(manifest.losses) == {"regression"}


def test_a_past_of_gaps_is_not_said_to_be_known(tmp_path: Path) -> None:
    with pytest.raises(NotEnoughHistory, match="0 s are known"):
        train(REQUEST, {"a": history(np.full(5 * DAY, np.nan))}, tmp_path, lambda _stage, _share: None)


def test_a_sample_of_a_large_fleet_judges_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def light(grid: Grid, past: TrafficHistory, origins: Indices) -> list[Rates]:
        asked.append(past.start_s)
        return [np.full((len(origins), KINDS, len(grid.leads), len(LEVELS)), 1.0)]

    monkeypatch.setattr(judging, "_said_by_light", light)
    topics = {str(i): history(rhythm(2.2), start_s=86_400.0 * i) for i in range(3 * JUDGED_TOPICS)}

    losses = judge(GRID, topics, [regression()], Calendar())

    assert np.isfinite(losses["regression"])
    assert JUDGED_TOPICS / 2 < len(asked) <= JUDGED_TOPICS
    assert max(asked) > 86_400.0 * 2.5 * JUDGED_TOPICS, "topics from the whole fleet, not its first ones"


STOPPED = np.r_[rhythm(3.4), np.zeros(round(1.6 * DAY))]


def unmeasured(first: float, last: float) -> Rates:
    """Five days with a gap, in days."""
    rates = rhythm(5, seed=2)
    rates[round(first * DAY) : round(last * DAY)] = np.nan
    return rates


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(np.full(5 * DAY, 7.0), id="constant"),
        pytest.param(np.zeros(5 * DAY), id="no traffic"),
        pytest.param(STOPPED, id="stopped"),
        pytest.param(unmeasured(3.9, 5.0), id="not measured any more"),
        pytest.param(unmeasured(3.2, 4.6), id="away for more than a day"),
        pytest.param(unmeasured(0.0, 4.5), id="young"),
        pytest.param(unmeasured(0.0, 5.0), id="never measured"),
        pytest.param(np.empty(0), id="no bin"),
    ],
)
def test_one_odd_topic_does_not_judge_for_the_fleet(odd: Rates) -> None:
    fleet = {"a": history(rhythm(5)), "b": history(rhythm(5, seed=1)), "odd": history(odd)}
    good, bad = regression(), far_too_high(regression())

    assert judge(GRID, fleet, [good], Calendar())["regression"] < 1.0
    assert judge(GRID, fleet, [bad], Calendar())["regression"] > 1.0


def test_a_model_is_not_judged_where_it_would_not_be_heard() -> None:
    silent = replace(regression(), needs=10 * DAY)

    assert judge(GRID, {"a": history(rhythm(5))}, [silent], Calendar())["regression"] == np.inf


def stand_in(where: Path, script: str) -> str:
    """A program to run in place of the interpreter."""
    program = where / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def test_training_that_does_not_come_to_an_end_is_ended(tmp_path: Path) -> None:
    training = TrainingProcess(tmp_path / "models", python=stand_in(tmp_path, "exec sleep 600"))

    training.start(REQUEST, {"a": history(rhythm(1))}, within_s=0.2)
    state = training.join(30)

    assert state.phase is TrainingPhase.FAILED
    assert state.error == "training was not done within 0.2 s and was ended"
    assert not list((tmp_path / "models").glob(".training-*"))


def test_training_that_was_done_in_time_is_not_told_to_be_late(tmp_path: Path) -> None:
    training = TrainingProcess(tmp_path / "models", python=stand_in(tmp_path, "kill -XCPU $$"))

    training.start(REQUEST, {"a": history(rhythm(1))}, within_s=30)

    assert training.join(30).error.startswith("training was ended by SIGXCPU; it used far more CPU time")


def test_training_whose_controller_was_killed_takes_its_input_with_it(tmp_path: Path) -> None:
    request = tmp_path / "request"
    write_request(request, replace(REQUEST, beside=WINDOWS), {"a": history(rhythm(60))})
    command = [sys.executable, "-m", "services.forecaster.train", str(request), str(tmp_path / "models")]

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as training:
        assert training.stdin is not None
        assert training.stdout is not None
        assert b"reading" in training.stdout.readline()
        training.stdin.close()  # as its controller's end does
        assert training.wait(timeout=60) == 3

    assert not request.exists()


def test_the_system_ends_a_process_that_does_not_keep_to_its_budget(tmp_path: Path) -> None:
    write_request(tmp_path, REQUEST, {"a": history(rhythm(1))})
    runaway = (
        "import sys; from services.forecaster import train as process\n"
        "def spin(*_):\n    while True: pass\n"
        "process.train = spin\n"
        "process.cpu_limit_s = lambda budget: 1\n"
        "process.main(sys.argv[1], sys.argv[1])\n"
    )

    ended = subprocess.Popen([sys.executable, "-c", runaway, str(tmp_path)], stdin=subprocess.PIPE)

    try:
        assert ended.wait(timeout=120) == -signal.SIGXCPU
    finally:
        ended.kill()
        ended.communicate()
