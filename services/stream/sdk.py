"""The worker's SDK.

with stream(settings, "clicks", worker="gpu-3") as batches:
    for batch in batches:
        train(batch.decoded())
        batch.done()
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from threading import Event
from typing import Final

import structlog
from confluent_kafka import Message

from services.control.types import Shuffle
from services.settings.root import Settings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.store.reports import AssignmentReader
from services.stream.batch import Decode
from services.stream.drain_time import drain_time_s
from services.stream.errors import StreamError
from services.stream.group_stream import GroupStream
from services.stream.loss_log import LossLog, audit_on
from services.stream.plan import StreamPlan
from services.stream.ports import BatchStream
from services.stream.redis_ledger import RedisLedger
from services.stream.stream import SampleStream
from services.stream.topic import Topic

_log = structlog.get_logger(__name__)

_RETRY_S: Final = 0.5


@contextmanager
def stream(
    settings: Settings,
    job: str,
    *,
    worker: str,
    connect_s: float = 30.0,
    stopping: Event | None = None,
    decode: Decode = Message.value,
) -> Iterator[BatchStream]:
    """The samples of `job`, for `worker`; connected, but without a lease until the first batch.

    Kafka and Redis have `connect_s` to answer for the first time; later on they may be away for
    any time. `batch.decoded()` gives the samples through `decode`. Raises the StreamError met last.
    When `stopping` is set meanwhile, there are no batches.
    """
    plan = StreamPlan.of(job, settings.jobs[job], drain_s=drain_time_s(settings.jobs[job].pool))
    if settings.jobs[job].shuffle.mode is Shuffle.GROUP:
        with closing(GroupStream(settings.kafka, plan, decode=decode)) as member:
            if not _connect(member.connect, within_s=connect_s, stopping=stopping or Event()):
                member.close()
            yield member
        return
    redis = settings.redis
    with ExitStack() as stack:
        client = stack.enter_context(closing(connect_sync(redis)))
        keys = Keys(redis.prefix)
        ledger = RedisLedger(client, keys, job, plan.terms)
        assignment = stack.enter_context(
            AssignmentReader(redis.url, job, prefix=redis.prefix, timeout_s=redis.timeout_s)
        )
        topic = stack.enter_context(
            closing(Topic(settings.kafka, plan.topic, plan.group, read_ahead=plan.read_ahead))
        )
        batches = SampleStream(
            topic,
            ledger,
            plan,
            worker=worker,
            losses=LossLog(job, worker=worker, append=audit_on(client, keys)),
            ask_preference=lambda: assignment.partitions_of(worker),
            ask_standby=lambda: assignment.stands_by(worker),
            decode=decode,
        )
        stack.callback(batches.close)
        if not _connect(batches.connect, within_s=connect_s, stopping=stopping or Event()):
            batches.close()
        yield batches


def _connect(connect: Callable[[], None], *, within_s: float, stopping: Event) -> bool:
    """Wait until all have answered that it asks; False when told to stop. Raises StreamError."""
    deadline_s = time.monotonic() + within_s
    told = False
    while not stopping.is_set():
        try:
            connect()
        except StreamError as error:
            if time.monotonic() >= deadline_s:
                raise
            if not told:
                _log.warning("connection_awaited", why=str(error), within_s=within_s)
                told = True
            stopping.wait(_RETRY_S)
        else:
            return True
    return False
