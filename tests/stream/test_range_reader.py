"""Reading ranges: seeks only across gaps between leases, ends where Kafka has nothing more."""

from __future__ import annotations

from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, Message

from services.stream.range_reader import RangeReader
from shuffler.lease import Lease
from tests.stream.scripted_consumer import Record, ScriptedConsumer, Watch


def reader_of(consumer: ScriptedConsumer, watch: Watch | None = None) -> RangeReader:
    return RangeReader(cast(Consumer, consumer), "topic", now_s=watch or Watch())


def lease(start: int, end: int, *, partition: int = 0) -> Lease:
    return Lease(partition, start, end, "w", token=1, epoch=1, expires_at_s=0.0)


def read_all(reader: RangeReader, wanted: Lease, *, limit: int = 100) -> list[int]:
    """The offsets that the range holds. Fails when it does not come to an end."""
    reader.begin(wanted)
    offsets: list[int] = []
    for _ in range(50):
        offsets += [_offset(record) for record in reader.read(limit, timeout_s=0.0)]
        if reader.exhausted:
            return offsets
    raise AssertionError(f"the range did not end; read {offsets}")


def _offset(record: Message) -> int:
    offset: Any = record.offset()
    return int(offset)


def end_of_partition(at: int) -> Record:
    return Record(at, code=KafkaError._PARTITION_EOF)


def test_contiguous_leases_are_read_without_a_seek() -> None:
    consumer = ScriptedConsumer(*map(Record, range(30)))
    reader = reader_of(consumer)

    for start in (0, 10, 20):
        assert read_all(reader, lease(start, start + 10)) == list(range(start, start + 10))

    assert consumer.seeks == [(0, 0)]


def test_a_lease_elsewhere_is_one_seek() -> None:
    consumer = ScriptedConsumer(*map(Record, range(30)), *(Record(n, of=1) for n in range(5)))
    reader = reader_of(consumer)

    assert read_all(reader, lease(0, 10)) == list(range(10))
    assert read_all(reader, lease(0, 5, partition=1)) == list(range(5))
    assert read_all(reader, lease(20, 25)) == list(range(20, 25))

    assert consumer.seeks == [(0, 0), (1, 0), (0, 20)]


def test_records_beyond_the_range_are_kept_for_the_next() -> None:
    """Gaps make fewer records than offsets, so a read may go past the end of the range."""
    consumer = ScriptedConsumer(*map(Record, (0, 1, 8, 12, 13, 19, 25)))
    reader = reader_of(consumer)

    assert read_all(reader, lease(0, 10)) == [0, 1, 8]
    assert read_all(reader, lease(10, 20)) == [12, 13, 19]

    assert consumer.seeks == [(0, 0)]


def test_a_range_without_any_record_ends_at_the_next_one() -> None:
    reader = reader_of(ScriptedConsumer(Record(50)))

    assert read_all(reader, lease(10, 20)) == []


def test_a_range_ends_where_the_partition_does() -> None:
    reader = reader_of(ScriptedConsumer(Record(3), Record(4), end_of_partition(10)))

    assert read_all(reader, lease(0, 10)) == [3, 4]


def test_an_end_of_partition_before_the_range_ends_is_not_the_end() -> None:
    consumer = ScriptedConsumer(Record(0), end_of_partition(1), Record(1), end_of_partition(3))
    reader = reader_of(consumer)

    assert read_all(reader, lease(0, 3), limit=1) == [0, 1]


def test_a_range_below_an_end_already_seen_is_over_at_once() -> None:
    """Two leases over the markers of aborted transactions: the second has no event of its own."""
    reader = reader_of(ScriptedConsumer(Record(0), end_of_partition(20)))

    assert read_all(reader, lease(0, 10)) == [0]
    assert read_all(reader, lease(10, 20)) == []


def test_what_kafka_has_deleted_can_be_left_out() -> None:
    consumer = ScriptedConsumer(Record(0, code=KafkaError._AUTO_OFFSET_RESET), *map(Record, range(6, 10)))
    reader = reader_of(consumer)
    reader.begin(lease(0, 10))
    assert reader.read(100, timeout_s=0.0) == []
    assert reader.out_of_range

    assert reader.skip_to(6) == 6

    assert not reader.out_of_range
    assert [_offset(record) for record in reader.read(100, timeout_s=0.0)] == [6, 7, 8, 9]
    assert reader.exhausted


def test_a_range_that_is_gone_altogether_is_left_out_up_to_its_end() -> None:
    reader = reader_of(ScriptedConsumer(Record(0, code=KafkaError._AUTO_OFFSET_RESET), Record(500)))
    reader.begin(lease(0, 10))
    reader.read(100, timeout_s=0.0)

    assert reader.skip_to(500) == 10

    assert reader.exhausted


def test_trouble_is_told_until_records_come_again() -> None:
    consumer = ScriptedConsumer(Record(0, code=KafkaError._ALL_BROKERS_DOWN), Record(0))
    reader = reader_of(consumer)
    reader.begin(lease(0, 10))

    reader.read(1, timeout_s=0.0)
    assert reader.trouble is not None
    reader.read(1, timeout_s=0.0)
    assert reader.trouble is None


def test_a_range_that_stalls_is_asked_for_anew_from_where_it_was() -> None:
    watch = Watch()
    consumer = ScriptedConsumer(*map(Record, range(4)), watch=watch)
    reader = reader_of(consumer, watch)
    reader.begin(lease(0, 10))
    assert len(reader.read(100, timeout_s=0.0)) == 4

    reader.read(100, timeout_s=6.0)

    assert consumer.seeks == [(0, 0), (0, 4)]


def test_time_spent_training_is_not_a_stall() -> None:
    """The trainer itself reads: between two reads lies a step, which may be a long one."""
    watch = Watch()
    consumer = ScriptedConsumer(*map(Record, range(4)), watch=watch)
    reader = reader_of(consumer, watch)
    reader.begin(lease(0, 10))
    assert len(reader.read(100, timeout_s=0.0)) == 4

    watch.now += 60.0
    reader.read(100, timeout_s=0.05)

    assert consumer.seeks == [(0, 0)]
