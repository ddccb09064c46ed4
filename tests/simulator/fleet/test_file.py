"""Fleet files: what is wrong is named, with its key and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.simulator.errors import FleetInvalid
from services.simulator.fleet.builtin import RECIPES, builtin_fleet, load_of
from services.simulator.fleet.file import fleet_of, load_fleet
from services.simulator.fleet.traffic import traffic_of, workers_needed
from tests.simulator.fleet.making import a_fleet, a_job

GOOD = """
gpu_types:
  a100: {gpus: 4, price: 3.0}
  t4: {gpus: 8, node_gpus: 4}
jobs:
  - name: clicks
    tenant: ads
    weight: 2
    guaranteed: 2
    rates: {a100: 300, t4: 100}
    trace: clicks.csv
    peak_workers: 3
  - name: clicks
    tenant: feed
    rates: {t4: 80}
    shape: {peak_hour: 4, noise: 0.1}
    mean_per_s: 150
warmup_days: 0.05
settle_h: 0.5
days: 0.1
"""


def test_a_file_names_types_jobs_and_traces_beside_it(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text(GOOD, encoding="utf-8")
    rows = "\n".join(f"{300 * i},{100 + i}" for i in range(12))
    (tmp_path / "clicks.csv").write_text(f"timestamp,rate\n{rows}\n", encoding="utf-8")

    fleet = load_fleet(tmp_path / "fleet.yaml")
    traffic = traffic_of(fleet, seed=1)

    assert [job.label for job in fleet.jobs] == ["ads/clicks", "feed/clicks"]
    assert traffic.minutes.shape == (2, 72 + 30 + 144)
    assert traffic.minutes[1].mean() == pytest.approx(150.0)
    peak = float(np.quantile(traffic.minutes[0], 0.999))
    assert float(workers_needed(fleet.jobs[0], "a100", peak)) == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gpu_types": {}}, "gpu_types is empty"),
        ({"jobs": []}, "jobs is empty"),
        ({"jobs": [a_job(), a_job()]}, "two jobs are called 'clicks'"),
        ({"jobs": [a_job(rates={"h100": 1.0})]}, "has a rate on 'h100'; gpu_types has a"),
        ({"jobs": [a_job(rates={})]}, "rates is empty"),
        ({"jobs": [a_job(rates={"a": 0.0})]}, "jobs.0.rates.a: Input should be greater than 0"),
        ({"jobs": [a_job(weight=-1)]}, "jobs.0.weight"),
        ({"jobs": [a_job(guaranteed=9)]}, "9 GPUs of 'a' are guaranteed and there are 8"),
        ({"jobs": [a_job(mean_per_s=None)]}, "made-up traffic needs a size"),
        ({"jobs": [a_job(peak_workers=2)]}, "has both peak_workers and mean_per_s"),
        ({"jobs": [a_job(trace="x.csv", shape={})]}, "has both trace and shape"),
        ({"jobs": [a_job(colour="red")]}, "jobs.0.colour: no such setting"),
        ({"gpu_types": {"a": {"gpus": 0}}}, "gpu_types.a.gpus"),
        ({"slo_s": float("nan")}, "slo_s"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {"gpu_types": {"a": {"gpus": 8}}, "jobs": [a_job()]}

    with pytest.raises(FleetInvalid) as caught:
        fleet_of({**good, **change}, source="fleet.yaml")

    assert said in str(caught.value)
    assert str(caught.value).startswith("fleet.yaml: ")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("- just\n- a list\n", "the top level must be a mapping"),
        ("gpu_types: {a: [\n", "is not valid YAML"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(FleetInvalid, match=said):
        load_fleet(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FleetInvalid, match=r"nowhere\.yaml: cannot be read"):
        load_fleet(tmp_path / "nowhere.yaml")


def test_traffic_that_is_nothing_cannot_be_scaled(tmp_path: Path) -> None:
    path = tmp_path / "silence.csv"
    path.write_text("timestamp,rate\n0,0\n60,0\n120,0\n", encoding="utf-8")

    with pytest.raises(FleetInvalid, match="zero throughout"):
        traffic_of(a_fleet(a_job(trace=path)), seed=1)


def test_a_built_in_fleet_peaks_at_the_load_it_promises_and_is_the_same_for_a_seed() -> None:
    fleet = builtin_fleet("small", seed=3)

    load = load_of(fleet, traffic_of(fleet, seed=3).judged)

    assert load.max() == pytest.approx(RECIPES["small"].load, rel=0.01)
    assert fleet == builtin_fleet("small", seed=3)
    assert fleet != builtin_fleet("small", seed=4)
    for kind, about in fleet.gpu_types.items():
        assert sum(job.guaranteed for job in fleet.jobs if job.home == kind) <= about.gpus


def test_a_built_in_fleet_follows_a_given_trace_at_different_phases(tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    rows = [f"{1800 * i},{100 + 50 * np.sin(i / 48 * 2 * np.pi):.3f}" for i in range(96)]
    path.write_text("timestamp,rate\n" + "\n".join(rows) + "\n", encoding="utf-8")

    fleet = builtin_fleet("small", seed=1, trace=path)

    following = [job for job in fleet.jobs if job.trace is not None]
    assert len(following) == len(fleet.jobs) // 2
    assert len({job.phase_h for job in following}) == len(following)


def test_an_unknown_built_in_fleet_is_named() -> None:
    with pytest.raises(FleetInvalid, match="no built-in fleet is called 'huge'; there are contended"):
        builtin_fleet("huge", seed=1)
