"""The learner learns, overlaps, stays within its staleness, and never loses a batch or a failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread
from typing import Any, cast

import numpy as np
import pytest
from confluent_kafka import Message

from services.samples.layout import Samples, encode
from services.store import codec
from services.stream.batch import Batch, Part
from services.traffic.clicks import CLICK_SHAPE, ClickMaker
from services.trainer.dead_letters import DeadLetters
from services.trainer.device import EmulatedDevice
from services.trainer.evaluation import OnlineEvaluation
from services.trainer.learner import Learner, ModelMismatch, Workbench
from services.trainer.net import NetShape, NumpyNet
from services.trainer.ps.client import Keyed, ParameterClient, Pulled
from services.trainer.ps.desk import ShardDesk
from services.trainer.telemetry import Tally
from tests.trainer.ps.shards import ListedShards, address_of, desk, serving
from tests.waiting import eventually

SHAPE = NetShape(CLICK_SHAPE, dim=4, hidden=8)


class Record:
    """As much of a Kafka message as a learner looks at."""

    def __init__(self, value: bytes, offset: int) -> None:
        self._value, self._offset = value, offset

    def value(self) -> bytes:
        return self._value

    def offset(self) -> int:
        return self._offset

    def partition(self) -> int:
        return 0

    def timestamp(self) -> tuple[int, int]:
        return 0, -1


class Queue(Iterator[Batch]):
    """A BatchStream of batches that were prepared."""

    def __init__(self, batches: list[list[bytes]]) -> None:
        self.done: list[int] = []
        self.taken = 0
        self._batches = batches
        self._closed = False

    def __next__(self) -> Batch:
        if self._closed or self.taken == len(self._batches):
            raise StopIteration
        number, values = self.taken, self._batches[self.taken]
        self.taken += 1
        records = [cast(Message, Record(value, offset)) for offset, value in enumerate(values)]
        return Batch(
            records,
            [Part(len(records), upto=len(records))],
            fresh_within_s=1e12,
            on_done=lambda *_: self.done.append(number),
        )

    def stop(self) -> None:
        self._closed = True

    def close(self) -> None:
        self._closed = True


class Letters:
    """Keeps what is rejected."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def put(self, messages: list[Message], reasons: dict[int, str]) -> None:
        self.reasons += reasons.values()


def clicks(batches: int, *, size: int = 64, maker: ClickMaker | None = None) -> list[list[bytes]]:
    maker = maker or ClickMaker(users=50, items=30)
    return [encode(maker.draw(size, at_s=90.0, simulated_s=0.0).samples) for _ in range(batches)]


@contextmanager
def learning(shard: ShardDesk | None = None, **other: Any) -> Iterator[Workbench]:
    directory = ListedShards()
    with serving(shard or desk(row_size=SHAPE.row_size, rows_max=5000)) as server:
        directory.addresses[0] = address_of(server)
        puller, pusher = (
            ParameterClient(directory, shards=1, row_size=SHAPE.row_size, patient=lambda: False)
            for _ in range(2)
        )
        puller.begin(SHAPE.first_dense())
        given: dict[str, Any] = {
            "shape": SHAPE,
            "net": NumpyNet(SHAPE),
            "pace": EmulatedDevice(step_ms=0.0, batch=64),
            "puller": puller,
            "pusher": pusher,
            "first_dense": SHAPE.first_dense(),
            "letters": cast(DeadLetters, Letters()),
            "evaluation": OnlineEvaluation(window=5_000),
        }
        try:
            yield Workbench(**{**given, **other})
        finally:
            puller.close()
            pusher.close()


def run(batches: Queue, ready: Workbench) -> Tally:
    tally = Tally("w", batch=64, quality=ready.evaluation.quality)
    Learner(batches, ready, tally, now_s=lambda: 100.0).run()
    return tally


def test_it_learns_what_the_hidden_model_likes() -> None:
    batches = Queue(clicks(600))
    with learning() as ready:
        report = run(batches, ready).report()

    assert sorted(batches.done) == list(range(600))
    assert report.trained == 600 * 64
    assert report.quality is not None
    assert report.quality.auc is not None
    assert report.quality.auc > 0.7
    assert report.quality.sample_age_s == pytest.approx(10.0)
    assert report.steps is not None
    assert 0 < report.steps.pull_s < report.steps.wait_s
    assert min(report.steps.input_s, report.steps.compute_s) > 0


def test_poisoned_messages_are_handed_on_and_the_rest_is_trained() -> None:
    first, second = clicks(2)
    first[5] = b"poison"
    batches = Queue([first, [b"", b"{}"], second])
    with learning() as ready:
        tally = run(batches, ready)

    assert sorted(batches.done) == [0, 1, 2]
    assert len(cast(Letters, ready.letters).reasons) == 3
    quality = tally.report().quality
    assert quality is not None
    assert (quality.samples, quality.rejected) == (127, 3)


def test_a_batch_whose_loss_is_no_number_changes_nothing_and_is_counted() -> None:
    huge = ClickMaker().draw(64, at_s=0.0, simulated_s=0.0).samples
    poison = encode(Samples(huge.labels, huge.at_s, huge.ids, np.full_like(huge.numbers, 3e38)))
    shard = desk(row_size=SHAPE.row_size)
    batches = Queue([poison])
    with learning(shard) as ready:
        before = shard.dense.values.copy()
        quality = run(batches, ready).report().quality

    assert quality is not None
    assert (quality.skipped, quality.samples) == (1, 0)
    assert batches.done == [0], "it would come back for ever"
    assert shard.version == 0
    assert np.array_equal(shard.dense.values, before)


class HeldPush:
    """A client whose pushes wait until they are let go."""

    def __init__(self) -> None:
        self.let_go = Event()
        self.started = 0
        self.version = 0
        self.epoch = 0

    def since(self, epoch: int) -> None:
        self.epoch = epoch

    def push(self, *_: object) -> None:
        self.started += 1
        assert self.let_go.wait(30)


@pytest.mark.parametrize("staleness", [1, 3])
def test_no_more_batches_are_between_pull_and_push_than_the_staleness_allows(staleness: int) -> None:
    held = HeldPush()
    batches, pulls = Queue(clicks(10)), []

    class Counting(ParameterClient):
        def pull(self, keyed: Keyed) -> Pulled:
            pulls.append(len(batches.done))
            return super().pull(keyed)

    with learning(pusher=held, staleness=staleness) as ready:
        counting = Counting(
            cast(Any, ready.puller)._directory, shards=1, row_size=SHAPE.row_size, patient=lambda: False
        )
        counted = Workbench(
            **{name: getattr(ready, name) for name in Workbench.__slots__} | {"puller": counting}
        )
        thread = Thread(target=run, args=(batches, counted), daemon=True)
        thread.start()
        eventually(lambda: batches.taken == staleness and held.started == 1, what="as many as allowed")
        held.let_go.set()
        thread.join(30)
        counting.close()

    assert sorted(batches.done) == list(range(10))
    assert all(number - done < staleness for number, done in enumerate(pulls))


def test_how_many_batches_of_others_came_in_between_is_told() -> None:
    busy = HeldPush()
    busy.let_go.set()
    busy.version = 4  # when this batch was pulled it was none: its own, and three of others

    with learning(pusher=busy, staleness=1) as ready:
        quality = run(Queue(clicks(1)), ready).report().quality

    assert quality is not None
    assert quality.staleness_batches == 3


def test_samples_that_lie_about_their_time_leave_the_report_readable() -> None:
    samples = ClickMaker(users=5, items=3).draw(4, at_s=90.0, simulated_s=0.0).samples
    lying = replace(samples, at_s=np.array([1.7e308, 1.7e308, -1.7e308, 90.0]))

    with learning() as ready:
        tally = run(Queue([encode(lying), encode(replace(lying, at_s=np.full(4, -1.7e308)))]), ready)

    report = codec.decode_report(codec.encode_report(tally.report()), key="report")
    assert report.quality is not None
    assert report.quality.samples == 8


def test_how_long_the_device_waited_for_a_batch_is_told_and_not_how_long_for_traffic() -> None:
    with learning(staleness=1) as ready:
        steps = run(Queue(clicks(3)), ready).report().steps

    assert steps is not None
    assert steps.starved_s >= steps.input_s + steps.pull_s, "with one batch at a time nothing overlaps"


def test_a_failure_in_any_thread_ends_all_and_is_raised() -> None:
    class Broken(HeldPush):
        def push(self, *_: object) -> None:
            raise ConnectionError("broken")

    batches = Queue(clicks(50))
    with learning(pusher=Broken()) as ready, pytest.raises(ConnectionError, match="broken"):
        run(batches, ready)

    assert batches.done == []
    assert batches.taken < 50


def test_a_parameter_server_of_another_model_is_named() -> None:
    shard = desk(row_size=SHAPE.row_size)
    shard.dense.begin(np.ones(3, np.float32))
    with learning(shard) as ready, pytest.raises(ModelMismatch, match="has 3 numbers, this worker's model"):
        run(Queue(clicks(1)), ready)


def test_a_dense_part_that_was_lost_is_begun_again() -> None:
    shard = desk(row_size=SHAPE.row_size)
    with learning(shard) as ready:
        shard.dense.restore(np.empty(0, np.float32), np.empty(0, np.float32))
        run(Queue(clicks(2)), ready)

    assert len(shard.dense.values) == SHAPE.dense_size
