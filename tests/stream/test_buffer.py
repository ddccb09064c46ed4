"""Between reading and training: full batches, honest counts, nothing held back for long."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Thread
from typing import Any, cast

from confluent_kafka import Message

from services.stream.batch import Batch, Holding
from services.stream.buffer import SampleBuffer
from shuffler.lease import Lease
from tests.waiting import eventually


@dataclass(frozen=True)
class Sample:
    at: int
    sent_ms: int = 10**15
    """In the far future unless said otherwise: never late."""

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.sent_ms


def samples(*offsets: int, **more: Any) -> list[Message]:
    return [cast(Message, Sample(offset, **more)) for offset in offsets]


def buffer_of(*, batch: int, linger_s: float = 60.0) -> SampleBuffer:
    return SampleBuffer(batch=batch, linger_s=linger_s, fresh_within_s=60.0)


def holding(start: int, end: int) -> Holding:
    return Holding(Lease(0, start, end, "w", token=start + 1, epoch=1, expires_at_s=0.0), read_to=start)


def taken(buffer: SampleBuffer) -> Batch:
    batch = buffer.take()
    assert batch is not None
    return batch


def offsets(batch: Batch) -> list[int | None]:
    return [sample.offset() for sample in batch.samples]


def test_small_leases_fill_a_batch_together() -> None:
    buffer = buffer_of(batch=4)
    one, other = holding(0, 3), holding(10, 13)
    buffer.put(one, samples(0, 1, 2))
    buffer.put(other, samples(10, 11, 12))

    batch = taken(buffer)

    assert offsets(batch) == [0, 1, 2, 10]
    assert buffer.count == 2
    batch.done()
    assert one.settled
    assert not other.settled


def test_a_batch_that_is_not_full_waits_for_more() -> None:
    buffer = buffer_of(batch=3)
    buffer.put(holding(0, 9), samples(0, 1))
    got: list[Batch | None] = []
    trainer = Thread(target=lambda: got.append(buffer.take()))
    trainer.start()
    trainer.join(0.1)
    assert trainer.is_alive(), "it was given a part of a batch at once"

    buffer.put(holding(9, 10), samples(9))
    trainer.join(10)

    assert [len(batch) for batch in got if batch is not None] == [3]


def test_a_batch_that_is_not_full_does_not_wait_for_ever() -> None:
    buffer = buffer_of(batch=100, linger_s=0.01)
    buffer.put(holding(0, 9), samples(0, 1))

    assert offsets(taken(buffer)) == [0, 1]


def test_when_nothing_more_comes_the_rest_is_handed_out_at_once() -> None:
    buffer = buffer_of(batch=100)
    buffer.put(holding(0, 9), samples(0, 1))
    buffer.flush()

    assert offsets(taken(buffer)) == [0, 1]
    buffer.end()
    assert buffer.take() is None


def test_what_is_discarded_is_not_handed_out() -> None:
    buffer = buffer_of(batch=1)
    buffer.put(holding(0, 9), samples(0, 1))

    buffer.end(discard=True)

    assert buffer.take() is None
    assert buffer.count == 0


def test_only_samples_older_than_promised_are_late() -> None:
    buffer = buffer_of(batch=3)
    held = holding(0, 3)
    buffer.put(held, samples(0, 1, sent_ms=1) + samples(2))
    taken(buffer).done()

    assert held.outcome().late == 2


def test_a_sample_without_a_timestamp_is_not_late() -> None:
    buffer = buffer_of(batch=1)
    held = holding(0, 1)
    buffer.put(held, samples(0, sent_ms=-1))
    taken(buffer).done()

    assert held.outcome().late == 0


def test_done_twice_counts_once() -> None:
    buffer = buffer_of(batch=2)
    held = holding(0, 2)
    buffer.put(held, samples(0, 1))
    batch = taken(buffer)
    batch.done()
    batch.done()

    assert held.outcome().trained == 2


def test_speed_is_learned_from_full_batches_only() -> None:
    buffer = buffer_of(batch=2, linger_s=0.0)
    buffer.put(holding(0, 1), samples(0))
    taken(buffer).done()
    assert buffer.rate_per_s == 0.0

    buffer.put(holding(1, 3), samples(1, 2))
    taken(buffer).done()

    assert buffer.rate_per_s > 0


def test_out_of_order_only_the_part_without_a_hole_counts() -> None:
    buffer = buffer_of(batch=2)
    held = holding(0, 10)
    buffer.put(held, samples(0, 1, 4, 5, 8, 9))
    held.read_to = 10
    first, second, third = (taken(buffer) for _ in range(3))
    third.done()
    first.done()

    assert held.outcome() == (2, 2, 0, 0)
    second.done()
    assert held.outcome() == (10, 6, 0, 0)


def test_deleted_offsets_count_once_what_lies_behind_them_is_trained() -> None:
    buffer = buffer_of(batch=1)
    held = holding(0, 10)
    held.deleted.append((0, 4))
    buffer.put(held, samples(4, 5))
    held.read_to = 6
    first, second = taken(buffer), taken(buffer)
    assert held.outcome() == (0, 0, 0, 0)

    first.done()
    assert held.outcome() == (5, 1, 0, 4)
    second.done()
    assert held.outcome() == (6, 2, 0, 4)


def test_the_feeder_is_woken_when_a_batch_is_taken() -> None:
    buffer = buffer_of(batch=1)
    buffer.put(holding(0, 1), samples(0))
    woken: list[int] = []

    def feed() -> None:
        buffer.wait(60)
        woken.append(buffer.count)

    feeder = Thread(target=feed, daemon=True)
    feeder.start()
    # Taken again and again, because the feeder may not wait yet the first time.
    eventually(lambda: _take_one(buffer) and woken, what="the feeder wakes")


def _take_one(buffer: SampleBuffer) -> bool:
    buffer.put(holding(0, 1), samples(0))
    return buffer.take() is not None
