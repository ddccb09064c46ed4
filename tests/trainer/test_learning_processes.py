"""Workers and shards as processes: they learn, and whoever is killed, nothing is skipped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from services.control.training_quality import TrainingQuality, pooled
from services.samples.layout import Ids
from services.settings import Settings
from services.store.connect import connect, connect_sync
from services.store.keys import Keys
from services.store.reports import RedisReports
from services.traffic.clicks import ClickMaker
from services.trainer.ps.directory import RedisDirectory
from services.trainer.ps.link import ShardLink
from services.trainer.ps.placement import keys_of
from services.trainer.ps.snapshot import Position, Snapshot, SnapshotVault
from services.trainer.ps.wire import Operation, Request
from shuffler.errors import NotOpened
from shuffler.lease import Progress
from tests.servers.cable import Cable
from tests.servers.kafka import KafkaUnderTest
from tests.stream.streams import JOB, progress_of, settings_for
from tests.trainer.learning import Cluster, Process, send_clicks, send_one_of_each_user
from tests.trainer.ps.shards import desk
from tests.trainer.test_dead_letters import consumed
from tests.waiting import eventually, eventually_async

PARTITIONS = 3


@pytest.fixture
def settings(kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path) -> Settings:
    return settings_for(
        kafka.bootstrap,
        redis_url,
        kafka.new_topic(PARTITIONS),
        group,
        worker={"batch": 64, "device": "numpy"},
        parameters={"directory": str(tmp_path / "parameters"), "shards": 2, "snapshot_s": 0.3, "dim": 4},
        shuffle={"start": "earliest", "lease_ttl_s": 2.0},
    )


@pytest.fixture
def lone(settings: Settings, tmp_path: Path) -> Iterator[Cluster]:
    """With one shard."""
    job = settings.jobs[JOB]
    alone = job.model_copy(update={"parameters": job.parameters.model_copy(update={"shards": 1})})
    made = Cluster(settings.model_copy(update={"jobs": {JOB: alone}}), tmp_path)
    yield made
    made.end()


@pytest.fixture
def cluster(settings: Settings, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(settings, tmp_path)
    yield made
    made.end()


def snapshots(settings: Settings, shard: int = 0) -> SnapshotVault:
    return SnapshotVault(Path(settings.jobs[JOB].parameters.directory) / JOB / f"shard-{shard}")


def saved(settings: Settings, *, trained: int) -> None:
    """Until both shards have a snapshot in which so many are trained."""

    def there() -> bool:
        found = [snapshots(settings, shard).latest() for shard in range(2)]
        return all(snapshot is not None and snapshot.position.trained >= trained for snapshot in found)

    eventually(there, within_s=60, what="a snapshot of each shard")


def trained(settings: Settings, count: int) -> Progress:
    def enough() -> bool:
        try:
            return progress_of(settings).trained >= count
        except NotOpened:
            return False

    eventually(enough, within_s=90, what=f"{count} trained")
    return progress_of(settings)


def all_trained(settings: Settings) -> Progress:
    def over() -> bool:
        progress = progress_of(settings)
        return progress.watermarks == progress.ends and not progress.out

    eventually(over, within_s=90, what="everything trained")
    return progress_of(settings)


async def told_auc(settings: Settings) -> float | None:
    client = connect(settings.redis)
    try:
        reports = await RedisReports(client, Keys(settings.redis.prefix), JOB).reports()
    finally:
        await client.aclose()
    quality = pooled(report.quality for report in reports)
    return None if quality is None else quality.auc


async def test_workers_learn_tell_how_well_and_put_poison_aside(
    cluster: Cluster, settings: Settings, kafka: KafkaUnderTest
) -> None:
    kafka.create_topic(f"{settings.jobs[JOB].topic}.dead-letter", 1)
    count = send_clicks(settings, 15_000, maker=ClickMaker(users=50, items=30), among=b"not a sample")
    worker = cluster.worker("w0")
    for number in range(2):
        cluster.shard(number)
    worker.wait_until_ready()
    client = connect(settings.redis)
    reports = RedisReports(client, Keys(settings.redis.prefix), JOB)

    async def told() -> TrainingQuality | None:
        quality = pooled(report.quality for report in await reports.reports())
        return quality if quality is not None and quality.samples >= 10_000 and quality.rejected else None

    quality = await eventually_async(told, within_s=90, what="a report on 10,000 samples")
    (report,) = await reports.reports()
    await client.aclose()

    assert quality is not None
    assert quality.auc is not None
    assert quality.auc > 0.65
    assert quality.rejected == 1
    assert 0 < quality.sample_age_s < 120
    assert {load.name for load in report.resources} == {"shard-0", "shard-1"}
    assert report.batch == 64
    assert trained(settings, count).trained == count
    assert worker.ask_to_leave() == 0, worker.said()
    (letter,) = consumed(settings.kafka.bootstrap, f"{settings.jobs[JOB].topic}.dead-letter", 1)
    assert letter.value() == b"not a sample"


def test_a_killed_worker_and_a_killed_shard_cost_repeats_and_nothing_else(
    cluster: Cluster, settings: Settings
) -> None:
    maker = ClickMaker(users=50, items=30)
    shards = [cluster.shard(number).wait_until_ready() for number in range(2)]
    first = send_clicks(settings, 6_000, maker=maker)
    victim, survivor = cluster.worker("w0"), cluster.worker("w1")
    survivor.wait_until_ready()
    victim.wait_until_ready()
    trained(settings, first // 3)
    victim.kill()
    trained(settings, first)
    saved(settings, trained=first)

    send_clicks(settings, 6_000, maker=maker)
    trained(settings, first + 500)
    shards[1].kill()
    newest = snapshots(settings, 1).latest()
    some_lost = newest is not None and newest.position.trained < progress_of(settings).trained
    again = cluster.shard(1).wait_until_ready()
    progress = all_trained(settings)

    assert sum(progress.watermarks.values()) == 12_000
    assert progress.lost == 0
    assert not progress.quarantined
    assert "snapshot_restored" in again.said()
    assert "ledger_rewound" in again.said() or not some_lost, "on a slow machine all was in the snapshot"
    assert survivor.process.poll() is None, "it waited for the shard"
    auc = asyncio.run(told_auc(settings))
    assert auc is not None
    assert auc > 0.6, "over the latest 10,000 samples, those after the kill among them"
    assert survivor.ask_to_leave() == 0, survivor.said()


def test_a_shard_that_left_in_order_repeats_nothing_and_one_that_lost_its_directory_everything(
    lone: Cluster,
) -> None:
    settings, shard = lone.settings, lone.shard().wait_until_ready()
    count = send_clicks(settings, 1_000, maker=ClickMaker(users=50, items=30))
    worker = lone.worker("w0").wait_until_ready()
    trained(settings, count)
    before = lone.dense()

    assert shard.ask_to_leave() == 0, shard.said()
    back = lone.shard().wait_until_ready()
    assert lone.dense() == before
    assert "ledger_rewound" not in back.said()
    assert progress_of(settings).trained == count

    usurper = lone.shard().wait_until_ready()
    assert back.process.wait(60) == 0
    assert "shard_superseded" in back.said()
    usurper.kill()
    for path in (Path(settings.jobs[JOB].parameters.directory) / JOB / "shard-0").iterdir():
        path.unlink()
    empty = lone.shard().wait_until_ready()
    assert "ledger_rewound" in empty.said()
    assert trained(settings, 2 * count).lost == 0
    assert all_trained(settings).watermarks == progress_of(settings).ends
    assert worker.ask_to_leave() == 0, worker.said()


@pytest.fixture
def slow(lone: Cluster) -> Iterator[Cluster]:
    """With one shard, and a worker that takes its time."""
    job = lone.settings.jobs[JOB]
    wanted = job.model_copy(update={"worker": job.worker.model_copy(update={"step_ms": 10.0})})
    made = Cluster(lone.settings.model_copy(update={"jobs": {JOB: wanted}}), lone.directory / "slow")
    yield made
    made.end()


def check_all_taught(cluster: Cluster, last: Process, users: Ids) -> None:
    """Every sample has changed its own row in what the last process of the shard leaves behind."""
    progress = all_trained(cluster.settings)
    assert last.ask_to_leave() == 0, last.said()
    assert sum(progress.watermarks.values()) == len(users)
    assert progress.lost == 0
    kept = snapshots(cluster.settings).latest()
    assert kept is not None
    taught = set(kept.table.keys[kept.table.squares > 0].tolist())
    assert set(keys_of(users)[:, 0].tolist()) <= taught


def test_a_shard_that_wakes_when_another_has_its_place_teaches_and_keeps_nothing(slow: Cluster) -> None:
    """As after a long pause, in which an orchestrator started a replacement."""
    paused = slow.shard().wait_until_ready()
    users = send_one_of_each_user(slow.settings, 12_000)
    worker = slow.worker("w0").wait_until_ready()
    trained(slow.settings, 1_000)

    with paused.frozen():
        replacement = slow.shard().wait_until_ready()
    assert paused.process.wait(60) == 0
    assert "shard_superseded" in paused.said()
    replacement.kill()
    last = slow.shard().wait_until_ready()

    check_all_taught(slow, last, users)
    assert worker.process.poll() is None, worker.said()


def test_workers_leave_a_shard_that_is_cut_off_from_the_store_for_the_one_started_in_its_place(
    slow: Cluster,
) -> None:
    """It answers whoever is connected, and cannot hear that what it learns is nobody's."""
    redis = urlsplit(slow.settings.redis.url)
    with Cable(redis.hostname or "", redis.port or 0) as cable:
        through = redis._replace(netloc=redis.netloc.replace(str(redis.port), str(cable.port))).geturl()
        severed = slow.shard(0, "--redis", through).wait_until_ready()
        users = send_one_of_each_user(slow.settings, 12_000)
        worker = slow.worker("w0").wait_until_ready()
        trained(slow.settings, 1_000)

        cable.cut()
        replacement = slow.shard().wait_until_ready()
        check_all_taught(slow, replacement, users)

        assert severed.process.poll() is None, "it was there all the time"
        cable.mend()
        assert severed.process.wait(60) == 0
    assert "shard_superseded" in severed.said()
    assert worker.process.poll() is None, worker.said()


def test_batches_of_a_lease_under_way_are_taught_again_to_a_shard_that_lost_them(
    settings: Settings, tmp_path: Path
) -> None:
    """The ledger hears of a lease at its end; the shard may be killed when it has half of its batches."""
    job = settings.jobs[JOB]
    wanted = {
        "parameters": job.parameters.model_copy(update={"shards": 1}),
        "worker": job.worker.model_copy(update={"step_ms": 200.0}),
        "shuffle": job.shuffle.model_copy(update={"lease_s": 600.0}),
    }
    alone = Cluster(settings.model_copy(update={"jobs": {JOB: job.model_copy(update=wanted)}}), tmp_path)

    def in_the_middle_of_a_lease() -> bool:
        kept, told = snapshots(settings).latest(), progress_of(settings)
        return kept is not None and bool(told.out) and kept.position.trained == told.trained > 0

    try:
        shard = alone.shard().wait_until_ready()
        count = send_clicks(settings, 1_600, maker=ClickMaker(users=50, items=30))
        worker = alone.worker("w0").wait_until_ready()
        trained(settings, 1)

        def killed_in_the_middle_of_a_lease() -> bool:
            with worker.frozen():
                if in_the_middle_of_a_lease():
                    shard.kill()
            return shard.process.poll() is not None

        eventually(killed_in_the_middle_of_a_lease, what="a snapshot while a lease is out")
        again = alone.shard().wait_until_ready()
        all_trained(settings)

        assert "ledger_rewound" in again.said()
        assert alone.heard_of_shard()[1] * job.worker.batch >= count, "none was skipped"
    finally:
        alone.end()


def test_a_shard_listens_everywhere_and_tells_workers_a_name_that_they_reach(lone: Cluster) -> None:
    """As in a container, whose own addresses nobody else knows."""
    everywhere = ("--host", "0.0.0.0", "--advertise", "localhost")  # noqa: S104 - what is tested
    lone.shard(0, *everywhere).wait_until_ready()

    with connect_sync(lone.settings.redis) as store:
        listed = RedisDirectory(store, Keys(lone.settings.redis.prefix), JOB).find(0)

    assert listed.host == "localhost"
    assert lone.dense() == [], "it answers, and nothing is learned yet"


def test_a_worker_whose_parameter_server_never_answers_gives_up(cluster: Cluster, settings: Settings) -> None:
    send_clicks(settings, 10, maker=ClickMaker(users=5, items=3))
    worker = cluster.worker("w0", "--connect-s", "1")

    assert worker.process.wait(60) == 69
    assert "penstock shard --job clicks --shard 0" in worker.said()


def test_a_worker_that_cannot_read_where_the_parameter_server_is_says_so_and_gives_up(
    cluster: Cluster, settings: Settings
) -> None:
    with connect_sync(settings.redis) as store:
        store.hset(Keys(settings.redis.prefix).shards(JOB), "0", "half of an addr")
    worker = cluster.worker("w0")

    assert worker.process.wait(60) == 69
    assert "start the shard again" in worker.said()
    assert "Traceback" not in worker.said()


def test_a_shard_that_comes_back_with_embeddings_of_another_size_says_what_to_do(
    lone: Cluster, settings: Settings
) -> None:
    other = desk(row_size=1 + 16)
    other.table.pull(np.arange(3, dtype=np.uint64))
    snapshots(settings).write(Snapshot.of(other, Position({0: 3}, trained=3)))
    shard = lone.shard()

    assert shard.process.wait(60) == 69
    assert "embeddings of 16 numbers, the settings ask for 4; set parameters.dim back" in shard.said()
    assert "Traceback" not in shard.said()


def test_a_hot_shard_is_relieved_while_training_goes_on_and_the_new_home_survives_a_kill(
    settings: Settings, tmp_path: Path
) -> None:
    """All slots are on a slow shard, and another, which is not slow, has none: however late the machine lets
    its workers ask, each batch keeps the first busy for longer, so slots go from it and never back."""
    relief = {"relief": 0.1, "relief_s": 0.3, "dense_shards": 2}
    hot = Cluster(_with_parameters(settings, relief | {"service_ms": 20.0}), tmp_path / "hot")
    idle = Cluster(_with_parameters(settings, relief), tmp_path / "idle")
    with connect_sync(settings.redis) as store:
        directory = RedisDirectory(store, Keys(settings.redis.prefix), JOB)
        for slot in np.flatnonzero(directory.slots(2).shard_of == 1).tolist():
            directory.give(slot, to=0, shards=2)
        try:
            _relieved(hot, idle, directory)
        finally:
            hot.end()
            idle.end()


def _with_parameters(settings: Settings, wanted: dict[str, float]) -> Settings:
    job = settings.jobs[JOB]
    job = job.model_copy(update={"parameters": job.parameters.model_copy(update=wanted)})
    return settings.model_copy(update={"jobs": {JOB: job}})


def _relieved(hot: Cluster, idle: Cluster, directory: RedisDirectory) -> None:
    settings, maker = hot.settings, ClickMaker(users=50, items=30)
    shards = [hot.shard(0), idle.shard(1)]
    workers = [hot.worker(name) for name in ("w0", "w1")]
    sent = send_clicks(settings, 2_000, maker=maker)
    for process in (*shards, *workers):
        process.wait_until_ready()

    while "slots_adopted" not in shards[1].said():
        trained(settings, sent - 1_000)
        sent += send_clicks(settings, 1_000, maker=maker)
    saved(settings, trained=trained(settings, sent).trained)
    moved = directory.slots(2).shard_of == 1
    shards[1].kill()
    sent += send_clicks(settings, 1_000, maker=maker)
    shards[1] = idle.shard(1).wait_until_ready()
    progress = all_trained(settings)

    assert moved.any()
    assert (directory.slots(2).shard_of == 1)[moved].all(), "they stay where they went"
    assert sum(progress.watermarks.values()) == sent
    assert progress.lost == 0
    assert "snapshot_restored" in shards[1].said()
    for worker in workers:
        assert worker.ask_to_leave() == 0, worker.said()
    eventually(lambda: _busy(directory, 0) < 0.05, what="a shard that nobody asks, so that none relieves it")
    eventually(lambda: _lie_where_the_store_says(settings, directory), what="what was on its way arrived")
    for shard in shards:
        assert shard.ask_to_leave() == 0, shard.said()
    assert _lie_where_the_store_says(settings, directory), "in the last snapshots too"


def _busy(directory: RedisDirectory, shard: int) -> float:
    link = ShardLink(directory.find(shard), timeout_s=30)
    try:
        return float(json.loads(link.ask(Request(Operation.STATS, np.empty(0, np.uint64))).body)["busy"])
    finally:
        link.close()


def _lie_where_the_store_says(settings: Settings, directory: RedisDirectory) -> bool:
    slots = directory.slots(2)
    for shard in range(2):
        kept = snapshots(settings, shard).latest()
        assert kept is not None
        assert (slots.shards(kept.table.keys) == shard).all()
        assert (kept.slots == (slots.shard_of == shard)).all()
    return True
