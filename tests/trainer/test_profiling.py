"""A profile measures what the job's workers can train, and leaves nothing of it behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from services.cli.main import app
from services.settings import Settings
from tests.servers.kafka import KafkaUnderTest, TopicFactory
from tests.stream.streams import JOB, committed, produce, settings_for

BATCH = 50


def profile(settings: Settings, directory: Path, *options: str) -> Any:
    config = directory / "penstock.yaml"
    config.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
    return CliRunner().invoke(app, ["profile", JOB, "--config", str(config), "--json", *options])


def paced(step_ms: float) -> dict[str, Any]:
    """Workers that take `step_ms` for BATCH samples."""
    return {"device": "emulated", "step_ms": step_ms, "batch": BATCH}


def test_one_worker_and_two_are_measured_and_nothing_is_committed(
    kafka: KafkaUnderTest, topic: TopicFactory, group: str, redis_url: str, tmp_path: Path
) -> None:
    name = topic(partitions=4)
    settings = settings_for(kafka.bootstrap, redis_url, name, group, worker=paced(100))
    produce(kafka.bootstrap, name, dict.fromkeys(range(4), 10_000))

    told = profile(settings, tmp_path, "--seconds", "3", "--gpu-type", "t4")

    assert told.exit_code == 0, told.output
    one, two = json.loads(told.stdout)["scaling"]["profile"]
    assert (one["workers"], two["workers"], one["gpu_type"]) == (1, 2, "t4")
    assert 250 < one["samples_per_s"] < 510, "a worker takes 100 ms for 50 samples"
    assert two["samples_per_s"] > 1.4 * one["samples_per_s"]
    assert not any(offset > 0 for offset in committed(settings, 4).values()), "the job's own group was moved"


def test_a_topic_too_short_to_keep_the_workers_busy_is_told(
    kafka: KafkaUnderTest, topic: TopicFactory, group: str, redis_url: str, tmp_path: Path
) -> None:
    name = topic(partitions=2)
    settings = settings_for(kafka.bootstrap, redis_url, name, group, worker=paced(10))
    empty = profile(settings, tmp_path)
    produce(kafka.bootstrap, name, {0: 1000, 1: 1000})
    short = profile(settings, tmp_path, "--seconds", "2", "--workers", "1")

    assert (empty.exit_code, short.exit_code) == (1, 1)
    assert "kept no samples" in empty.output
    assert "--seconds" in short.output


def test_steps_longer_than_it_is_measured_for_are_told(
    kafka: KafkaUnderTest, topic: TopicFactory, group: str, redis_url: str, tmp_path: Path
) -> None:
    name = topic(partitions=2)
    # The next step ends long after the measuring, however late that begins.
    settings = settings_for(kafka.bootstrap, redis_url, name, group, worker=paced(20_000))
    produce(kafka.bootstrap, name, {0: 1000, 1: 1000})

    slow = profile(settings, tmp_path, "--seconds", "2", "--workers", "1")

    assert slow.exit_code == 1
    assert "--seconds" in slow.output


def test_sizes_and_jobs_that_are_none_are_refused(redis_url: str, tmp_path: Path) -> None:
    settings = settings_for("127.0.0.1:9", redis_url, "clicks", "g")

    for wrong in (["--workers", "0,2"], ["--workers", "two"]):
        told = profile(settings, tmp_path, *wrong)
        assert told.exit_code == 2
        assert "--workers" in told.output
