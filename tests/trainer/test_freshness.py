"""What training late costs on a log: the log is read with care, and later is worse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from services.cli.main import app
from services.samples.decode import decode
from services.samples.interactions import Interactions, LogInvalid
from services.samples.json_form import id_of
from services.traffic.clicks import ClickMaker
from services.traffic.replayed import ReplayedSamples
from services.trainer.in_process import InProcessModel, LateAuc, auc_by_lateness, delay_that_costs
from services.trainer.net import NetShape


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_log_is_read_in_the_order_of_its_events(tmp_path: Path) -> None:
    log = write(
        tmp_path / "log.csv",
        "timestamp,label,user,price:number,item\n1970-01-01T00:00:09Z,1,anna,2.5,7\n5,0,bert,-1,8\n",
    )

    read = Interactions.read(log)

    assert (read.ids, read.numbers) == (("user", "item"), ("price",))
    assert read.samples.at_s.tolist() == [5.0, 9.0]
    assert read.samples.labels.tolist() == [0.0, 1.0]
    assert read.samples.ids.tolist() == [[id_of("bert"), id_of("8")], [id_of("anna"), id_of("7")]]
    assert read.samples.numbers.tolist() == [[-1.0], [2.5]]
    assert Interactions.read(log, numeric=["item"]).numbers == ("price", "item")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1 is not"),
        ("time,label,user\n", "line 1 is not"),
        ("timestamp,label,user\n", "has no rows"),
        ("timestamp,label,user\n1,0\n", "line 2 has 2 fields, the first line 3"),
        ("timestamp,label,user\n1,2,a\n", "label 2 is not between 0 and 1"),
        ("timestamp,label,user\nnoon,1,a\n", "timestamp 'noon' is not a number"),
        ("timestamp,label,user,p:number\n1,1,a,x\n", "line 2: p 'x' is not a number"),
        ("timestamp,label,user,p:number\n1,1,a,nan\n", "p 'nan' is not finite"),
        ("timestamp,label,p:number\n1,1,2\n", "at least one must be an id"),
    ],
)
def test_what_is_wrong_with_a_log_is_told_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(LogInvalid, match=why):
        Interactions.read(write(tmp_path / "log.csv", text))
    with pytest.raises(LogInvalid, match="no column shoe"):
        Interactions.read(write(tmp_path / "log.csv", "timestamp,label,user\n1,1,a\n"), numeric=["shoe"])


def drifting_log(path: Path, *, hours: int = 8, per_hour: int = 1500) -> Path:
    maker = ClickMaker(users=20, items=10, drift_s=4 * 3600.0)
    lines = ["timestamp,label,user,item,segment,category,device,hour,price:number,recency:number"]
    for minute in range(hours * 60):
        at_s = minute * 60.0
        samples = maker.draw(per_hour // 60, at_s=at_s, simulated_s=at_s).samples
        for row in range(len(samples)):
            cells = [
                at_s + row,
                samples.labels[row],
                *samples.ids[row].tolist(),
                *samples.numbers[row].tolist(),
            ]
            lines.append(",".join(str(cell) for cell in cells))
    return write(path, "\n".join(lines) + "\n")


def test_later_is_worse_where_tastes_drift(tmp_path: Path) -> None:
    log, figures = drifting_log(tmp_path / "log.csv"), tmp_path / "figures.json"

    result = CliRunner().invoke(
        app,
        ["freshness", "--samples", str(log), "--delays", "0,1h,2h", "--loss", "0.01", "--json", str(figures)],
    )

    assert result.exit_code == 0, result.output
    found = json.loads(figures.read_text(encoding="utf-8"))
    assert found["samples"] == 12_000
    fresh, late, later = (found["auc"][name] for name in ("0", "3600", "7200"))
    assert fresh > late + 0.02
    assert fresh > later + 0.02
    assert f"{fresh:.4f}" in result.output
    promised = round(3600 * 0.01 / (fresh - late))
    assert f"slo.fresh_within_s: {promised}" in result.output


def test_a_log_too_short_for_a_delay_is_refused(tmp_path: Path) -> None:
    log = drifting_log(tmp_path / "log.csv", hours=1)

    result = CliRunner().invoke(app, ["freshness", "--samples", str(log), "--delays", "2h"])

    assert result.exit_code == 2
    assert "give a longer log or shorter delays" in result.output


def test_a_log_is_replayed_by_event_time_and_every_row_once() -> None:
    samples = ClickMaker().draw(100, at_s=0.0, simulated_s=0.0).samples
    samples.at_s[:] = np.arange(100) * 10.0
    log = ReplayedSamples(samples, speed_up=60.0)

    first = log.make(5, at_s=1e9, simulated_s=95.0)
    rest = [
        pair for at_s in np.arange(100.0, log.end_s, 3.0) for pair in log.make(0, at_s=1e9, simulated_s=at_s)
    ]

    assert len(first) == 10
    assert log.made == len(first) + len(rest) == 100
    decoded = decode([value for _, value in first + rest], samples.shape)
    assert np.array_equal(decoded.samples.ids, samples.ids)
    assert set(decoded.samples.at_s.tolist()) == {1e9}, "their age when trained is that of the replay"
    assert log.rates(np.array([500.0])).tolist() == [6.0]


def test_gradients_under_way_arrive_that_many_batches_later() -> None:
    maker = ClickMaker(users=5, items=3)
    first, second, third = (maker.draw(64, at_s=0.0, simulated_s=0.0).samples for _ in range(3))
    shape = NetShape(first.shape)
    fresh, stale = InProcessModel(shape), InProcessModel(shape, stale_batches=1)
    fresh.learn(first)

    stale.learn(first)
    assert np.array_equal(stale.predict(third), InProcessModel(shape).predict(third)), "still under way"
    stale.learn(second)

    assert np.array_equal(stale.predict(third), fresh.predict(third))


def test_the_promise_that_keeps_a_loss_is_found_where_the_curve_first_falls_so_low() -> None:
    curve = [LateAuc(0.0, 0.8), LateAuc(60.0, 0.79), LateAuc(120.0, 0.795), LateAuc(600.0, 0.7)]

    assert delay_that_costs(0.005, curve) == pytest.approx(30.0)
    assert delay_that_costs(0.0, curve) == 0.0
    assert delay_that_costs(0.2, curve) is None


def test_progress_is_told_up_to_the_end() -> None:
    samples = ClickMaker().draw(4000, at_s=0.0, simulated_s=0.0).samples
    samples.at_s[:] = np.arange(4000.0)
    told: list[float] = []
    auc_by_lateness(samples, [0.0, 5.0], tell=told.append)

    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(told) > 2
