"""A shard keeps its parameters with a position that they are good for, whatever happens meanwhile."""

from __future__ import annotations

import errno
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from typer.testing import CliRunner

from services.cli.main import app
from services.settings import Settings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.stream.errors import LedgerUnavailable
from services.stream.plan import StreamPlan
from services.stream.ports import LeaseLedger
from services.stream.redis_ledger import RedisLedger
from services.stream.topic import Topic
from services.trainer.ps.directory import RedisDirectory
from services.trainer.ps.shard import Shard
from services.trainer.ps.snapshot import Position, Snapshot
from shuffler.errors import NotOpened
from shuffler.lease import Progress
from tests.servers.kafka import KafkaUnderTest
from tests.stream.streams import JOB, produce, settings_for

MARKS = st.dictionaries(st.integers(0, 4), st.integers(0, 50), max_size=5)


def progress(marks: dict[int, int], *, trained: int = 10, out: int = 0, topic_id: str = "a") -> Progress:
    return Progress(
        dict(marks),
        dict(marks),
        trained=trained,
        late=0,
        repeated=0,
        lost=0,
        epoch=1,
        out=out,
        topic_id=topic_id,
    )


class Ledger:
    """Tells its progress, while samples go on being trained."""

    def __init__(self, shard: Shard, *, failure: Exception | None = None) -> None:
        self._shard = shard
        self._failure = failure

    def progress(self) -> Progress:
        if self._failure is not None:
            raise self._failure
        self._shard.desk.version += 1
        return progress({0: 5})


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    parameters = {"directory": str(tmp_path), "rows_max": 100}
    job = {"topic": "clicks", "parameters": parameters}
    return Shard(Settings.model_validate({"jobs": {"clicks": job}}), "clicks", 0)


def ledger_of(shard: Shard, failure: Exception | None = None) -> LeaseLedger:
    return cast(LeaseLedger, Ledger(shard, failure=failure))


async def test_the_watermark_is_read_before_the_parameters_are_copied(shard: Shard) -> None:
    assert await shard.keep(ledger_of(shard))

    kept = shard.vault.latest()
    assert kept is not None
    assert kept.version == 1, "what was trained when the watermark was told is in the copy"
    assert kept.position == Position({0: 5}, 10, "a")


async def test_a_full_disk_is_told_and_the_shard_goes_on_with_the_snapshot_before(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shard.keep(ledger_of(shard))

    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, capture_logs() as logs:
        patched.setattr("services.trainer.ps.snapshot.os.fsync", full)
        assert await shard.keep(ledger_of(shard)), "the next try comes in its own time"
    kept = shard.vault.latest()
    await shard.keep(ledger_of(shard))
    after = shard.vault.latest()

    assert [log["event"] for log in logs] == ["snapshot_failed"]
    assert "No space left" in logs[0]["why"]
    assert kept is not None
    assert after is not None
    assert (kept.version, after.version) == (1, 3)


@pytest.mark.parametrize("failure", [NotOpened(None), LedgerUnavailable("redis", "away")])
async def test_without_a_position_there_is_no_snapshot(shard: Shard, failure: Exception) -> None:
    assert not await shard.keep(ledger_of(shard, failure))
    assert shard.vault.latest() is None


async def test_a_shard_that_leaves_before_anything_was_trained_keeps_what_it_has(shard: Shard) -> None:
    assert await shard.keep(ledger_of(shard, NotOpened(None)), clean=True)

    kept = shard.vault.latest()
    assert kept is not None
    assert kept.clean


@given(kept=MARKS, now=MARKS, trained=st.integers(11, 20))
def test_what_is_lost_is_trained_again_and_nobody_is_moved_forward(
    kept: dict[int, int], now: dict[int, int], trained: int
) -> None:
    starts = Position(kept, trained=10, topic_id="a").starts_again(progress(now, trained=trained))

    assert starts.keys() == now.keys(), "ranges beyond a watermark may have been trained, too"
    assert all(start <= now[partition] for partition, start in starts.items())
    assert all(start <= kept.get(partition, 0) for partition, start in starts.items())


def test_nothing_starts_again_where_nothing_was_trained_since_and_a_new_topic_starts_from_its_beginning() -> (
    None
):
    position = Position({0: 5}, trained=10, topic_id="a")

    assert position.starts_again(progress({0: 5})) == {}
    assert position.starts_again(progress({0: 3}, topic_id="b")) == {0: 0}


def test_a_ledger_that_was_lost_and_has_trained_as_much_since_is_not_taken_for_the_same() -> None:
    position = Position({0: 5}, trained=10, topic_id="a")

    assert position.starts_again(progress({0: 90}, trained=10)) == {0: 5}


@pytest.mark.parametrize(("epoch", "starts_at"), [(7, 40), (None, None)])
def test_what_a_shard_lost_is_trained_again_though_redis_lost_the_ledger_with_it(
    kafka: KafkaUnderTest,
    redis_url: str,
    group: str,
    tmp_path: Path,
    epoch: int | None,
    starts_at: int | None,
) -> None:
    """As when one machine has both. A group that others committed for has trained nothing of this job's."""
    name = kafka.new_topic(1)
    settings = settings_for(
        kafka.bootstrap, redis_url, name, group, parameters={"directory": str(tmp_path), "rows_max": 100}
    )
    produce(kafka.bootstrap, name, {0: 100})
    with closing(Topic(settings.kafka, name, group)) as topic:
        topic.partitions()
        topic.commit({0: 90}, epoch=epoch)
        topic_id = topic.id()
    shard, keys = Shard(settings, JOB, 0), Keys(settings.redis.prefix)
    shard.vault.write(Snapshot.of(shard.desk, Position({0: 40}, trained=40, topic_id=topic_id)))
    plan = StreamPlan.of(JOB, settings.jobs[JOB])

    with connect_sync(settings.redis) as client:
        ledger = RedisLedger(client, keys, JOB, plan.terms)
        shard.begin(plan, RedisDirectory(client, keys, JOB), ledger, known=False)

        if starts_at is None:
            with pytest.raises(NotOpened):
                ledger.progress()
        else:
            assert ledger.progress().watermarks == {0: starts_at}
            assert ledger.progress().ends == {0: 100}


def test_what_workers_hold_starts_again_though_none_of_it_is_told_as_trained_yet() -> None:
    """Batches of a lease reach the shards one by one; the ledger hears of the lease when it is over."""
    position = Position({0: 5, 1: 9}, trained=10, topic_id="a")

    assert position.starts_again(progress({0: 5, 1: 9}, out=40)) == {0: 5, 1: 9}


def test_a_shard_that_the_job_does_not_have_is_named() -> None:
    result = CliRunner().invoke(
        app,
        ["shard", "--job", "clicks", "--topic", "clicks", "--shard", "3", "--redis", "redis://127.0.0.1:1"],
    )

    assert result.exit_code == 2
    assert "there is no shard 3: parameters.shards is 1" in result.output
