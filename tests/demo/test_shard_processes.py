"""The demo's parameter server is there before anybody asks, comes back when killed, and goes in the end."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import yaml

from services.demo.scenario import JOB, Scenario
from services.demo.shard_processes import ShardProcesses, ShardsNotReady
from services.settings import Settings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.trainer.ps.client import ParameterClient
from services.trainer.ps.directory import RedisDirectory
from tests.servers.kafka import KafkaUnderTest, TopicFactory
from tests.waiting import eventually


@pytest.fixture
def settings(kafka: KafkaUnderTest, topic: TopicFactory, redis_url: str, tmp_path: Path) -> Settings:
    """With Kafka: a shard that comes back without its snapshot asks what the group had been taught."""
    return Scenario().settings(
        kafka=kafka.bootstrap, redis=redis_url, prefix="demo", topic=topic(), run_dir=tmp_path / "workers"
    )


def config_of(settings: Settings, directory: Path) -> Path:
    path = directory / "penstock.yaml"
    path.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
    return path


def test_a_killed_shard_is_started_again_and_workers_find_it(settings: Settings, tmp_path: Path) -> None:
    shards = ShardProcesses(settings, JOB, config=config_of(settings, tmp_path), directory=tmp_path)
    shards.start()
    try:
        with closing(connect_sync(settings.redis)) as store:
            client = ParameterClient(RedisDirectory(store, Keys("demo"), JOB), shards=1, row_size=9)
            client.begin(np.ones(3, np.float32))
            assert shards.mend() is None
            os.kill(shards.pids[0], signal.SIGKILL)
            said = eventually(shards.mend, what="the loss noticed")
            client.begin(np.ones(3, np.float32))  # waits for it
            client.close()
    finally:
        shards.stop()

    assert said is not None
    assert "shard 0 of the parameter server had died (exit code 137)" in said


def test_a_shard_that_cannot_start_is_told_with_its_last_words(settings: Settings, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("jobs: 7", encoding="utf-8")
    shards = ShardProcesses(settings, JOB, config=wrong, directory=tmp_path)

    with pytest.raises(ShardsNotReady, match=r"(?s)shard 0 did not start.*jobs"):
        shards.start()
    shards.stop()
