"""Jobs and their fleets: shared where the settings are the same, gone with the last job."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path

import pytest

from forecasting.boosting import train_boosting
from forecasting.calendar import Calendar
from forecasting.learned import lessons_from
from services.forecaster.artefacts import ArtefactStore
from services.forecaster.fleets import ForecastFleets, directory_name, options_of
from services.forecaster.lesson import CHEAP, TrainingRequest, missing_for, train
from services.forecaster.light import LightForecasts
from services.forecaster.served import ServedForecasts
from services.forecaster.trainer import TrainingPhase, TrainingProcess
from services.settings.group import YEAR_S
from services.settings.job import JobSettings
from services.settings.traffic import ForecastSettings
from tests.forecasting.test_artefacts import written
from tests.forecasting.worlds import GRID, STEP_S, history, rhythm
from tests.waiting import eventually_async

SETTINGS = ForecastSettings(step_s=STEP_S, horizon_s=GRID.horizon_s, model="none", retrain_s=YEAR_S)


def serving_threads() -> int:
    return sum(thread.name == "forecast-serving" for thread in threading.enumerate())


async def test_jobs_of_one_grid_share_a_fleet_that_ends_with_the_last_of_them(tmp_path: Path) -> None:
    fleets, before = ForecastFleets(tmp_path), serving_threads()

    async with fleets.open("a", SETTINGS) as first:
        async with fleets.open("b", SETTINGS) as second, fleets.open("c", ForecastSettings()):
            assert serving_threads() == before + 2
            for source in (first, second):
                assert source.forecast(history(rhythm(1.5))) is not None
            await eventually_async(lambda: bool(fleets.scores("a")), what="scores of a")
        assert serving_threads() == before + 1
        assert fleets.status("b") is None
        assert fleets.scores("b") == ()
    assert serving_threads() == before


async def test_a_rollback_is_heard_by_the_fleet_of_the_job_alone(tmp_path: Path) -> None:
    store = ArtefactStore(tmp_path / directory_name(SETTINGS))
    written(store, "1")
    written(store, "2")
    fleets = ForecastFleets(tmp_path)

    async with fleets.open("a", SETTINGS), fleets.open("b", SETTINGS):
        fleets.roll_back("nobody", "2")
        fleets.roll_back("a", "7")
        for job, version in (("a", "2"), ("b", "2")):
            status = fleets.status(job)
            assert status is not None
            assert status.version == version
        fleets.roll_back("a", "2")
        other = fleets.status("b")
        assert other is not None
        assert (other.version, other.rolled_back) == ("1", "2"), "one fleet, one set of models"


async def test_a_light_model_alone_starts_nothing(tmp_path: Path) -> None:
    before = serving_threads()

    async with ForecastFleets(tmp_path).open("a", ForecastSettings(model="last-value")) as source:
        assert isinstance(source, LightForecasts)
        assert serving_threads() == before


def test_settings_say_what_is_trained_and_by_which_calendar() -> None:
    options = options_of(
        ForecastSettings(model="FEDformer", holidays=["2026-12-25"], timezone="Europe/Paris", train_cpu_s=7)  # type: ignore[list-item]
    )

    assert options.network == "fedformer"
    assert options.beside == CHEAP
    assert options.budget_cpu_s == 7
    assert options.calendar is not None
    assert options.calendar.timezone == "Europe/Paris"
    assert len(options.calendar.holidays) == 1
    assert options_of(ForecastSettings(model="none", beside=[])).network == ""


def test_a_time_zone_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="is no time zone"):
        ForecastSettings(timezone="Mars/Olympus")


def test_a_mixed_forecast_is_no_fallback_and_a_light_one_has_a_name() -> None:
    assert JobSettings(topic="t").policy(stale_after_s=1).forecast_model == ""
    alone = JobSettings(topic="t", forecast=ForecastSettings(model="seasonal"))
    assert alone.policy(stale_after_s=1).forecast_model == "seasonal"


def test_a_network_that_cannot_be_trained_here_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.forecaster.lesson.installed", lambda _package: False)

    served = ServedForecasts(SETTINGS, tmp_path, options_of(ForecastSettings(model="fedformer")))

    assert "pip install 'penstock[forecast]'" in served.status().advice
    assert missing_for("patchtst") == ""


def _without_openmp(module: str) -> object:
    if module == "lightgbm":
        raise OSError("libgomp.so.1: cannot open shared object file")
    return importlib.import_module(module)


def test_boosting_that_cannot_be_loaded_is_left_out_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forecasting.heavy.import_module", _without_openmp)
    request = TrainingRequest(GRID, network="", beside=("regression", "boosting"))

    manifest = train(request, {"a": history(rhythm(4))}, tmp_path, lambda _stage, _share: None)

    assert set(manifest.losses) == {"regression"}
    advice = ServedForecasts(SETTINGS, tmp_path, options_of(ForecastSettings())).status().advice
    assert "libgomp.so.1" in advice
    assert "apt-get install libgomp1" in advice


def test_a_version_with_boosting_serves_the_others_where_boosting_cannot_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ArtefactStore(tmp_path)
    forests = train_boosting(lessons_from(GRID, {"a": history(rhythm(4))}, Calendar()), trees=2)
    written(store, "1", models=("regression", "boosting", "patchtst"), boosting=forests)

    monkeypatch.setattr("forecasting.heavy.import_module", _without_openmp)
    _, models = store.load("1", GRID)

    assert [model.name for model in models] == ["regression", "patchtst"]


def test_training_that_runs_out_of_memory_says_so(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'MemoryError: cannot allocate' >&2\nexit 1\n")
    python.chmod(0o755)
    training = TrainingProcess(tmp_path / "models", python=str(python))
    served = ServedForecasts(SETTINGS, tmp_path / "models", options_of(SETTINGS))
    served._training = training

    served._train_when_due({"a": history(rhythm(3))})  # a new topic: not yet
    served._train_when_due({"a": history(rhythm(3))})
    assert training.join(30).phase is TrainingPhase.FAILED
    served._train_when_due({"a": history(rhythm(3))})

    assert served.status().fault == "training ended with code 1: MemoryError: cannot allocate"
    assert served.status().version == ""
