"""Topics with samples in them, and streams that train them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from services.settings import Settings
from services.store import codec
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.stream.ports import BatchStream
from services.stream.redis_ledger import RedisLedger
from services.stream.sdk import stream
from shuffler.assignment import Assignment
from shuffler.errors import NotOpened
from shuffler.lease import Progress
from shuffler.ledger import Terms
from tests.servers.kafka import KafkaUnderTest
from tests.waiting import eventually

JOB = "clicks"


def settings_for(bootstrap: str, redis_url: str, topic: str, group: str, **job: Any) -> Settings:
    """A job that takes small leases and notices quickly."""
    shuffle = {"lease_s": 0.2, "lease_ttl_s": 5.0, **job.pop("shuffle", {})}
    wanted = {"topic": topic, "group": group, "worker": {"batch": 50}, **job, "shuffle": shuffle}
    return Settings.model_validate(
        {"kafka": {"bootstrap": bootstrap}, "redis": {"url": redis_url}, "jobs": {JOB: wanted}}
    )


def produce(bootstrap: str, topic: str, counts: dict[int, int], *, sent_at_s: float | None = None) -> int:
    """Send `counts` samples to each partition, stamped as sent now unless told; how many in all."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2, "linger.ms": 1})
    for partition, count in counts.items():
        for number in range(count):
            stamp_ms = 0 if sent_at_s is None else round(sent_at_s * 1000)  # 0 is now
            producer.produce(topic, f"{partition}:{number}".encode(), partition=partition, timestamp=stamp_ms)
            producer.poll(0)
    assert producer.flush(30) == 0, "Kafka did not take the samples"
    return sum(counts.values())


class Traffic(Thread):
    """Samples that keep coming, unevenly over the partitions, until the end of the block."""

    def __init__(self, bootstrap: str, topic: str, *, weights: Sequence[int], rate_per_s: int) -> None:
        super().__init__(name="traffic", daemon=True)
        self.counts = dict.fromkeys(range(len(weights)), 0)
        """What was sent to each partition. Final, and acknowledged, after the block."""
        # A broker that dies must not take a sample twice, or the counts would not be its offsets.
        safely = {"enable.idempotence": True, "log_level": 2, "linger.ms": 1}
        self._producer = Producer({"bootstrap.servers": bootstrap, **safely})
        self._topic = topic
        self._cycle = [partition for partition, weight in enumerate(weights) for _ in range(weight)]
        self._pause_s = len(self._cycle) / rate_per_s
        self._over = Event()

    def run(self) -> None:
        while not self._over.wait(self._pause_s):
            for partition in self._cycle:
                self._producer.produce(self._topic, b"sample", partition=partition)
                self.counts[partition] += 1
            self._producer.poll(0)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        assert self._producer.flush(30) == 0, "Kafka did not take the samples"


def progress_of(settings: Settings) -> Progress:
    """Where the job's ledger stands. Raises NotOpened before the first worker."""
    with connect_sync(settings.redis) as client:
        return RedisLedger(client, Keys(settings.redis.prefix), JOB, Terms()).progress()


def name_active(settings: Settings, *active: str) -> None:
    """As a controller does with each commit."""
    with connect_sync(settings.redis) as client:
        key = Keys(settings.redis.prefix).assignment(JOB)
        client.set(key, codec.encode_assignment(Assignment(active=active)))


def leases_out(settings: Settings, worker: str = "") -> int:
    """How many leases are held at the moment, by one worker or by all."""
    with connect_sync(settings.redis) as client:
        records = client.hgetall(Keys(settings.redis.prefix).ledger(JOB, "workers"))
    of_worker = f"{worker}.".encode() if worker else b""
    return sum(record.count(b",") for holder, record in records.items() if holder.startswith(of_worker))


def holds_leases(settings: Settings, worker: str) -> bool:
    """Whether the worker holds leases that have not lapsed, taken back by others or not."""
    with connect_sync(settings.redis) as client:
        records = client.hgetall(Keys(settings.redis.prefix).ledger(JOB, "workers"))
        seconds, micros = client.time()
    until_s = [
        float(record.split()[0])
        for holder, record in records.items()
        if holder.startswith(f"{worker}.".encode()) and b"," in record
    ]
    return any(lasts_s > seconds + micros / 1e6 for lasts_s in until_s)


def delete_below(kafka: KafkaUnderTest, topic: str, *, offset: int) -> None:
    """Have Kafka delete the first records of partition 0."""
    admin = kafka.admin()
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result()


def impatient(settings: Settings, *, timeout_s: float) -> Settings:
    """The same, with less patience for Kafka: requests to a dead broker are not worth the wait."""
    return settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"timeout_s": timeout_s})})


def committed(settings: Settings, partitions: int) -> dict[int, int]:
    """What the job's group has committed."""
    job = settings.jobs[JOB]
    reader = Consumer(settings.kafka.client(**{"group.id": job.group_of(JOB), "log_level": 2}))
    try:
        asked = [TopicPartition(job.topic, partition) for partition in range(partitions)]
        return {place.partition: place.offset for place in reader.committed(asked, timeout=10)}
    finally:
        reader.close()


class Trainee(Thread):
    """A worker in a thread: trains whatever it gets, and remembers which samples those were."""

    def __init__(self, settings: Settings, worker: str, *, before_done: Callable[[], object] = lambda: None):
        super().__init__(name=worker, daemon=True)
        self.seen: Counter[tuple[int, int]] = Counter()
        self.sizes: list[int] = []
        self.spans: list[int] = []
        """Of each batch, how many partitions it came from."""
        self.failure: BaseException | None = None
        self._settings = settings
        self._before_done = before_done
        self._batches: BatchStream | None = None
        self._begun = Event()

    def run(self) -> None:
        try:
            with stream(self._settings, JOB, worker=self.name, connect_s=20.0) as batches:
                self._batches = batches
                self._begun.set()
                for batch in batches:
                    self._before_done()
                    self.seen.update((s.partition() or 0, s.offset() or 0) for s in batch.samples)
                    self.sizes.append(len(batch))
                    self.spans.append(len({sample.partition() for sample in batch.samples}))
                    batch.done()
        except BaseException as error:  # noqa: BLE001 - raised by `leave` in the test's thread
            self.failure = error
            self._begun.set()

    def leave(self) -> None:
        """Stop in order and wait for it. Raises what the stream raised."""
        assert self._begun.wait(30)
        if self._batches is not None:
            self._batches.stop()
        self.join(30)
        assert not self.is_alive(), "the stream did not end"
        if self.failure is not None:
            raise self.failure


@contextmanager
def training(
    settings: Settings, *workers: str, before_done: Callable[[], object] = lambda: None
) -> Iterator[list[Trainee]]:
    """Workers that train until the end of the block."""
    crew = [Trainee(settings, worker, before_done=before_done) for worker in workers]
    for trainee in crew:
        trainee.start()
    try:
        yield crew
    finally:
        for trainee in crew:
            trainee.leave()


def trained_all(settings: Settings, samples: int) -> Progress:
    """The progress once `samples` are trained or lost."""

    def all_trained() -> Progress | None:
        progress = progress_of(settings)
        assert progress.trained + progress.lost <= samples, "more was trained than there is"
        return progress if progress.trained + progress.lost == samples else None

    done = eventually(lambda: _opened(all_trained), within_s=60, what=f"{samples} samples trained")
    assert done is not None
    return done


def opened(settings: Settings) -> Progress:
    """The progress once a worker has opened the ledger."""
    found = eventually(lambda: _opened(lambda: progress_of(settings)), what="the ledger is open")
    assert found is not None
    return found


def _opened(ask: Callable[[], Progress | None]) -> Progress | None:
    """The answer; None from a ledger that no worker has opened yet."""
    try:
        return ask()
    except NotOpened:
        return None
