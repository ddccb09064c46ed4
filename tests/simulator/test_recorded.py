"""Sim to real: a recorded demo run and its twin in the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.simulator.errors import SimulationError
from services.simulator.recorded import compare, read_recording, write_recording

RUN = Path(__file__).parent / "data" / "demo-run.json"


def test_a_recorded_run_and_its_simulation_agree() -> None:
    comparison = compare(read_recording(RUN))

    assert comparison.agrees, [figure for figure in comparison.figures if not figure.agrees]
    assert {figure.name for figure in comparison.figures} >= {"GPU-hours", "late share"}


def test_a_wrong_plant_is_noticed() -> None:
    recording = read_recording(RUN)
    slower = recording.plant.model_copy(update={"rate_per_worker": recording.plant.rate_per_worker / 2})

    assert not compare(recording.model_copy(update={"plant": slower})).agrees


def test_a_recording_survives_being_written(tmp_path: Path) -> None:
    recording = read_recording(RUN)
    write_recording(tmp_path / "run.json", recording)

    assert read_recording(tmp_path / "run.json") == recording


def test_what_is_wrong_with_a_recording_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text('{"rule": "reactive", "plant": {}, "ticks": []}', encoding="utf-8")

    with pytest.raises(SimulationError, match="ticks"):
        read_recording(path)
    with pytest.raises(SimulationError, match="cannot be read"):
        read_recording(tmp_path / "nowhere.json")


def test_a_rule_that_looks_ahead_cannot_be_replayed() -> None:
    recording = read_recording(RUN).model_copy(update={"rule": "penstock", "rule_options": {}})

    with pytest.raises(SimulationError, match="forecast"):
        compare(recording)
