"""`penstock backfill` puts a past where the controller finds it, or into a file."""

from __future__ import annotations

import asyncio
import csv
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner, Result

from forecasting.history import TrafficHistory
from services.cli import backfill as command
from services.cli.main import app
from services.control.errors import TrafficUnavailable
from services.meter.archive import HistoryKeeper
from services.meter.history import RateHistory
from services.meter.kafka_offsets import KafkaOffsets
from services.meter.redis_archive import RedisArchive
from services.settings.root import RedisSettings
from services.store.connect import connect
from services.store.keys import Keys
from tests.meter.conftest import Answer, matrix
from tests.meter.live_topic import LiveTopic
from tests.servers.kafka import KafkaUnderTest, TopicFactory

NOW_S = time.time()


def run(*options: str) -> Result:
    return CliRunner().invoke(app, ["backfill", *options])


@pytest.fixture
def config(tmp_path: Path, redis_url: str) -> Path:
    path = tmp_path / "penstock.yaml"
    jobs = {"clicks": {"topic": "clicks"}}
    path.write_text(yaml.safe_dump({"redis": {"url": redis_url, "prefix": "test"}, "jobs": jobs}))
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "past.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        start = NOW_S // 60 * 60 - 600 * 60
        rows.writerows([start + 60 * n, n] for n in range(600))
    return path


def archived(redis_url: str) -> TrafficHistory:
    async def load() -> TrafficHistory:
        client = connect(RedisSettings(url=redis_url))
        try:
            rates = RateHistory(step_s=60.0)
            await HistoryKeeper(rates, RedisArchive(client, Keys("test"), "clicks")).restore(
                now_s=time.time()
            )
            return rates.history()
        finally:
            await client.aclose()

    return asyncio.run(load())


def test_a_file_becomes_the_past_that_a_meter_starts_from(config: Path, trace: Path, redis_url: str) -> None:
    result = run("--job", "clicks", "--config", str(config), "--csv", str(trace))

    assert result.exit_code == 0, result.output
    assert archived(redis_url).rates.tolist() == list(range(600))
    assert "10.0 hours of past, 100% of them known" in result.output


def test_a_second_past_fills_gaps_and_replaces_nothing(
    config: Path, trace: Path, redis_url: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.csv"
    start = NOW_S // 60 * 60 - 700 * 60
    other.write_text("".join(f"{start + 60 * n},9999\n" for n in range(200)))

    for file in (trace, other):
        assert run("--job", "clicks", "--config", str(config), "--csv", str(file)).exit_code == 0

    past = archived(redis_url).rates
    assert past[:100].tolist() == [9999.0] * 100
    assert past[100:].tolist() == list(range(600))


def test_the_columns_of_a_file_are_those_that_its_header_names(
    config: Path, tmp_path: Path, redis_url: str
) -> None:
    """As a spreadsheet writes it: with a byte order mark, and more columns."""
    file, start = tmp_path / "sheet.csv", NOW_S // 60 * 60 - 600 * 60
    rows = "".join(f"{start + 60 * n},3,{n}\n" for n in range(600))
    file.write_text("\ufefftimestamp,workers,rate\n" + rows, encoding="utf-8")

    result = run("--job", "clicks", "--config", str(config), "--csv", str(file))

    assert result.exit_code == 0, result.output
    assert archived(redis_url).rates.tolist() == list(range(600))


@pytest.mark.parametrize("days", [-30.0, 1.0])
def test_a_past_that_no_job_would_remember_is_refused(
    config: Path, tmp_path: Path, redis_url: str, days: float
) -> None:
    file, start = tmp_path / "away.csv", NOW_S // 60 * 60 + 86_400 * days
    file.write_text("".join(f"{start + 60 * n},5\n" for n in range(200)))

    result = run("--job", "clicks", "--config", str(config), "--csv", str(file))

    assert result.exit_code == 1
    assert "a job remembers the 14 days before now; nothing was written" in result.output
    assert archived(redis_url).known == 0


def test_of_a_past_that_goes_on_into_the_future_the_past_is_taken(
    config: Path, tmp_path: Path, redis_url: str
) -> None:
    file, start = tmp_path / "long.csv", NOW_S // 60 * 60 - 100 * 60
    file.write_text("".join(f"{start + 60 * n},{n}\n" for n in range(20_000)))

    assert run("--job", "clicks", "--config", str(config), "--csv", str(file)).exit_code == 0
    assert archived(redis_url).rates[:100].tolist() == list(range(100))


@pytest.mark.real_broker
def test_the_topics_own_past_can_be_written_to_a_file(
    kafka: KafkaUnderTest, topic: TopicFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = LiveTopic(kafka.bootstrap, topic(partitions=2), "unused")
    for minute in range(90, 0, -1):
        live.produce(6, 6, at_s=NOW_S - 60 * minute)
    monkeypatch.setenv("PENSTOCK_KAFKA__BOOTSTRAP", kafka.bootstrap)
    out = tmp_path / "past.csv"

    result = run("--job", "any", "--topic", live.topic, "--days", "1", "--out", str(out))

    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(out.read_text().splitlines()))
    rates = np.array([float(row["rate"]) for row in rows if row["rate"]])
    assert len(rates) >= 85
    assert np.median(rates) == pytest.approx(0.2)


@pytest.mark.real_broker
def test_one_that_was_stopped_goes_on_where_it_was(
    kafka: KafkaUnderTest,
    topic: TopicFactory,
    config: Path,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live = LiveTopic(kafka.bootstrap, topic(partitions=1), "unused")
    for minute in range(300, 0, -1):
        live.produce(6, at_s=NOW_S - 60 * minute)
    monkeypatch.setenv("PENSTOCK_KAFKA__BOOTSTRAP", kafka.bootstrap)
    monkeypatch.setattr(command, "SAVE_EVERY_S", 0.0)
    asked: list[float] = []
    first: set[float] = set()
    whole = KafkaOffsets.at_times

    def stopped_at_150(self: KafkaOffsets, name: str, wanted: Sequence[tuple[int, float]]) -> Sequence[int]:
        asked.extend(at_s for _, at_s in wanted)
        if len(asked) == 150 and not first:
            raise TrafficUnavailable("the cable was pulled")
        return whole(self, name, wanted)

    monkeypatch.setattr(KafkaOffsets, "at_times", stopped_at_150)
    options = ("--job", "clicks", "--config", str(config), "--topic", live.topic, "--days", "1")

    assert run(*options).exit_code == 1
    kept = archived(redis_url).known
    assert 100 <= kept < 200, "what had come until then was saved"
    first |= set(asked)
    asked.clear()
    assert run(*options).exit_code == 0

    assert archived(redis_url).known >= 290
    again = [at_s for at_s in asked if at_s in first]
    assert len(again) <= 70, "no more than the piece it was stopped in"


def test_prometheus_gives_a_past_too(
    config: Path, redis_url: str, prometheus: Callable[[Answer], str]
) -> None:
    def answer(asked: dict[str, str]) -> tuple[int, Any]:
        edges = np.arange(float(asked["start"]), float(asked["end"]) + 1, float(asked["step"]))
        return matrix([(at_s, "42") for at_s in edges])

    options = ("--prometheus", prometheus(answer), "--query", "sum(rate(x[1m]))", "--days", "0.5")
    result = run("--job", "clicks", "--config", str(config), *options)

    assert result.exit_code == 0, result.output
    assert set(archived(redis_url).rates) == {42.0}
    assert "12.0 hours of past, 100% of them known" in result.output


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        (("--csv", "a.csv", "--prometheus", "http://x"), 2, "choose one"),
        (("--prometheus", "http://x"), 2, "go together"),
        (("--csv", "no-such.csv"), 1, "no-such.csv"),
        (("--job", "nothing"), 2, "is not in the settings (there: clicks); give its --topic"),
    ],
)
def test_mistakes_are_told_with_the_remedy(
    config: Path, options: tuple[str, ...], code: int, complaint: str
) -> None:
    result = run("--job", "clicks", "--config", str(config), *options)

    assert result.exit_code == code
    assert complaint in " ".join(result.output.replace("│", " ").split())
