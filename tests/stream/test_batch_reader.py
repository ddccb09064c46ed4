"""Between leases and training: full batches, honest counts, nothing held back for long."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message
from structlog.testing import capture_logs

from services.stream.batch import Batch, Holding
from services.stream.batch_reader import BatchReader
from services.stream.lease_queue import LeaseQueue
from services.stream.lease_reader import LeaseReader
from services.stream.outage import Outage
from services.stream.topic import Topic
from shuffler.lease import Lease
from tests.stream.scripted_consumer import Record, ScriptedConsumer
from tests.waiting import eventually


class Desk:
    """A reader of batches over a scripted log, with the queue that supplies it."""

    def __init__(self, *log: Record, batch: int, linger_s: float = 60.0, log_start: int = 0) -> None:
        self.consumer = ScriptedConsumer(*log)
        self.leases = LeaseQueue()
        topic = SimpleNamespace(name="topic", consumer=self.consumer, extent=lambda _p: (log_start, 10**6))
        source = LeaseReader(cast(Topic, topic), Outage("kafka"))
        self.batches = BatchReader(
            self.leases, source, batch=batch, linger_s=linger_s, fresh_within_s=60.0, decode=Message.value
        )

    def lease(self, start: int, end: int, *, partition: int = 0) -> Holding:
        lease = Lease(partition, start, end, "w", token=start + 1, epoch=1, expires_at_s=0.0)
        holding = Holding(lease, read_to=start)
        self.leases.put(holding)
        return holding

    def taken(self) -> Batch:
        batch = self.batches.take()
        assert batch is not None
        return batch


def records(*offsets: int, **more: Any) -> list[Record]:
    return [Record(offset, **more) for offset in offsets]


def offsets(batch: Batch) -> list[int | None]:
    return [sample.offset() for sample in batch.samples]


def test_small_leases_fill_a_batch_together() -> None:
    desk = Desk(*records(*range(7), *range(10, 13)), batch=4)
    desk.lease(0, 4)
    desk.taken().done()
    one, other = desk.lease(4, 7), desk.lease(10, 13)

    batch = desk.taken()

    assert offsets(batch) == [4, 5, 6, 10]
    assert desk.leases.unread == 2
    batch.done()
    assert one.exhausted
    assert one.settled
    assert not other.exhausted


def test_a_batch_that_is_not_full_waits_for_more() -> None:
    desk = Desk(*records(*range(5), 9), batch=3)
    desk.lease(0, 5)
    desk.taken().done()
    got: list[Batch | None] = []
    trainer = Thread(target=lambda: got.append(desk.batches.take()))
    trainer.start()
    trainer.join(0.1)
    assert trainer.is_alive(), "it was given a part of a batch at once"

    desk.lease(9, 10)
    trainer.join(10)

    assert [len(batch) for batch in got if batch is not None] == [3]


def test_a_batch_that_is_not_full_does_not_wait_for_ever() -> None:
    desk = Desk(*records(*range(5)), batch=3, linger_s=0.01)
    desk.lease(0, 9)
    desk.taken().done()

    assert offsets(desk.taken()) == [3, 4]


def test_the_first_batch_of_a_worker_waits_for_no_more() -> None:
    desk = Desk(*records(0, 1), batch=100)
    desk.lease(0, 9)

    assert offsets(desk.taken()) == [0, 1]


def test_on_leaving_what_was_read_is_handed_out_at_once_and_no_more_is_read() -> None:
    desk = Desk(*records(0, 1), batch=100)
    held = desk.lease(0, 9)
    got: list[Batch | None] = []
    trainer = Thread(target=lambda: got.extend(desk.batches.take() for _ in range(2)), daemon=True)
    trainer.start()
    eventually(lambda: held.parts, what="something is read")

    desk.leases.close()
    desk.batches.halt()
    eventually(lambda: got, what="the part of a batch is handed out")
    assert held.read_to == 2, "what is given back must not be read any more"
    assert not held.settled
    desk.leases.end()
    trainer.join(10)

    assert [None if batch is None else offsets(batch) for batch in got] == [[0, 1], None]


def test_after_the_end_nothing_is_handed_out() -> None:
    desk = Desk(*records(0, 1), batch=1)
    desk.lease(0, 2)

    desk.leases.end()

    assert desk.batches.take() is None


def test_halting_waits_for_whoever_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(batch=1)
    desk.lease(0, 9)
    reading, go_on, halted = Event(), Event(), Event()

    def consume(_count: int, _timeout_s: float) -> list[Record]:
        reading.set()
        go_on.wait(30)
        return records(0)

    monkeypatch.setattr(desk.consumer, "consume", consume)
    Thread(target=desk.batches.take, daemon=True).start()
    assert reading.wait(30)

    def leave() -> None:
        desk.batches.halt()
        halted.set()

    leaver = Thread(target=leave, daemon=True)
    leaver.start()
    leaver.join(0.1)
    assert not halted.is_set(), "a consumer would be closed under its reader"

    go_on.set()

    assert halted.wait(30)


def test_the_next_lease_is_fetched_while_the_last_batch_of_this_one_is_trained() -> None:
    desk = Desk(*records(0, 1), *records(5, 6, of=1), batch=2)
    desk.lease(0, 2)
    desk.lease(5, 7, partition=1)

    desk.taken()

    assert desk.consumer.seeks == [(0, 0), (1, 5)]


def test_a_lease_that_comes_while_the_trainer_is_busy_is_fetched_meanwhile() -> None:
    desk = Desk(*records(0, 1), *records(5, 6, of=1), batch=2)
    desk.lease(0, 2)
    desk.taken()
    desk.lease(5, 7, partition=1)

    desk.batches.prepare()

    assert desk.consumer.seeks == [(0, 0), (1, 5)]
    assert offsets(desk.taken()) == [5, 6]


def test_only_samples_older_than_promised_are_late() -> None:
    desk = Desk(*records(0, 1, sent_ms=1), *records(2), batch=3)
    held = desk.lease(0, 3)
    desk.taken().done()

    assert held.outcome().late == 2


def test_a_sample_without_a_timestamp_is_not_late() -> None:
    desk = Desk(*records(0, sent_ms=-1), batch=1)
    held = desk.lease(0, 1)
    desk.taken().done()

    assert held.outcome().late == 0


def test_done_twice_counts_once() -> None:
    desk = Desk(*records(0, 1), batch=2)
    held = desk.lease(0, 2)
    batch = desk.taken()
    batch.done()
    batch.done()

    assert held.outcome().trained == 2


def test_speed_is_learned_from_full_batches_only() -> None:
    desk = Desk(*records(0, 1, 2), batch=2, linger_s=0.0)
    desk.lease(0, 1)
    desk.taken().done()
    assert desk.leases.rate_per_s == 0.0

    desk.lease(1, 3)
    desk.taken().done()

    assert desk.leases.rate_per_s > 0


def test_out_of_order_only_the_part_without_a_hole_counts() -> None:
    desk = Desk(*records(0, 1, 4, 5, 8, 9), batch=2)
    held = desk.lease(0, 10)
    first, second, third = (desk.taken() for _ in range(3))
    third.done()
    first.done()

    assert held.outcome() == (2, 2, 0, 0)
    second.done()
    assert held.outcome() == (10, 6, 0, 0)


def test_deleted_offsets_are_told_and_count_once_what_lies_behind_them_is_trained() -> None:
    gone = Record(0, code=KafkaError._AUTO_OFFSET_RESET)
    desk = Desk(gone, *records(4, 5), batch=1, log_start=4)
    held = desk.lease(0, 6)
    with capture_logs() as logs:
        first, second = desk.taken(), desk.taken()
    assert [log["offsets"] for log in logs if log["event"] == "samples_lost"] == [[0, 4]]
    assert held.outcome() == (0, 0, 0, 0)

    first.done()
    assert held.outcome() == (5, 1, 0, 4)
    second.done()
    assert held.outcome() == (6, 2, 0, 4)


def test_the_feeder_is_woken_when_a_lease_is_read_or_trained_to_its_end() -> None:
    desk = Desk(*records(*range(4)), batch=2)
    desk.lease(0, 4)
    woken = wake_ups_of(desk.leases)

    middle = desk.taken()
    middle.done()
    assert woken == [], "a batch in the middle of a lease is none of its business"
    last = desk.taken()
    assert woken == ["finish"]
    last.done()

    assert woken == ["finish", "wake"]


def wake_ups_of(leases: LeaseQueue) -> list[str]:
    """The names of the calls by which whoever waits is woken, as they come."""
    woken: list[str] = []

    def noted(name: str, call: Callable[[], None]) -> None:
        woken.append(name)
        call()

    for name in ("finish", "wake"):
        setattr(leases, name, partial(noted, name, getattr(leases, name)))
    return woken
