"""The comparison of all policies can be ended and taken up again, and tells its figures in a flat object."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import policies
from benchmarks.archive import ContestArchive
from services.simulator import contest as contests
from services.simulator.contest import Contest, Task, Verdict, judge
from services.simulator.policies import choose
from tests.simulator.making import a_plant, a_trace

CHOICES = (choose("static-max"), choose("hpa"))


def _contest(*, mean: float = 600.0, slo_s: float = 60.0, seed: int = 1) -> Contest:
    trace = a_trace(np.tile([0.5, 1.2, 0.8, 1.5], 30) * mean)
    return Contest(trace, a_plant(slo_s=slo_s, warmup_days=0.02), seed=seed)


def _judged(archive: ContestArchive) -> Verdict:
    return judge(_contest(), CHOICES, with_oracle=True, archive=archive)


def _nothing_may_run(task: Task) -> None:
    raise AssertionError(f"{task} was run again")


def test_what_was_run_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _judged(ContestArchive(tmp_path, "mine", _contest()))
    monkeypatch.setattr(contests, "_do", _nothing_may_run)

    again = _judged(ContestArchive(tmp_path, "mine", _contest()))

    assert [j.figures for j in again.judged] == [j.figures for j in first.judged]
    assert [j.over_oracle for j in again.judged] == [j.over_oracle for j in first.judged]


def test_a_changed_policy_is_run_afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _judged(ContestArchive(tmp_path, "mine", _contest()))
    monkeypatch.setattr(contests, "_do", _nothing_may_run)

    with pytest.raises(AssertionError, match="hpa"):
        _judged(ContestArchive(tmp_path, "mine", _contest(), afresh=["hpa"]))


@pytest.mark.parametrize(
    "other", [_contest(mean=601.0), _contest(slo_s=30.0), _contest(seed=2)], ids=["trace", "plant", "seed"]
)
def test_nothing_is_recalled_of_another_contest(tmp_path: Path, other: Contest) -> None:
    _judged(ContestArchive(tmp_path, "mine", _contest()))

    assert ContestArchive(tmp_path, "mine", other).recall(CHOICES[0]) is None
    assert ContestArchive(tmp_path, "mine", _contest()).recall(CHOICES[0]) is not None


def test_the_benchmark_writes_a_table_and_a_flat_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"{600 * i},{100 + 20 * (i % 5)}" for i in range(18)]
    (tmp_path / "mine.csv").write_text("\n".join(["timestamp,rate", *rows]) + "\n", encoding="utf-8")
    monkeypatch.setenv("PENSTOCK_TRACES", str(tmp_path))
    monkeypatch.setattr(policies, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(policies, "RUNS", tmp_path / "results" / "runs")

    policies.main(["--plant", "hot-join", "--policy", "static-max", "--no-oracle", "--jobs", "1"])

    flat = json.loads((tmp_path / "results" / "policies.json").read_text(encoding="utf-8"))
    assert flat["hot-join.static-max.late_share"] == 0.0
    assert all(isinstance(value, float) for value in flat.values())
    assert "| hot-join | static-max | 0.000% |" in (tmp_path / "results" / "summary.md").read_text("utf-8")
