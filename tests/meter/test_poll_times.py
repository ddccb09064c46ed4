"""When a poll was: a broker that hangs holds up the call, not what the others have said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition

from services.meter.gauge import TopicGauge
from services.meter.kafka_offsets import KafkaOffsets
from services.meter.layout import Layout, TopicLayouts
from services.meter.offset_admin import OffsetAdmin
from services.meter.poll import OffsetPoll
from tests.meter.scripted import ManualClock

PER_S = 100.0
TIMEOUT_S = 5.0


class Cluster:
    """Two brokers, each leading one partition that gets the same traffic; the second may hang."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.hangs = False

    def ask(self, topics: Iterable[str]) -> Mapping[str, Layout]:
        return {topic: Layout("id", (1, 2), at_s=self.clock.elapsed_s()) for topic in topics}

    def list_offsets_at_once(
        self, partitions: Sequence[TopicPartition], level: object, *, timeout_s: float
    ) -> Future[Mapping[TopicPartition, Any]]:
        end = round(PER_S * self.clock.elapsed_s())
        told = {
            one: SimpleNamespace(offset=-1001 if self.hangs and one.partition else end) for one in partitions
        }
        return Waiting(self.clock, told, TIMEOUT_S if self.hangs else 0.004)


class Waiting(Future[Mapping[TopicPartition, Any]]):
    """What healthy brokers said at once is told when the call is over."""

    def __init__(self, clock: ManualClock, told: Mapping[TopicPartition, Any], after_s: float) -> None:
        super().__init__()
        self._clock, self._told, self._over_s = clock, told, clock.elapsed_s() + after_s

    def result(self, timeout: float | None = None) -> Mapping[TopicPartition, Any]:
        self._clock.advance(max(0.0, self._over_s - self._clock.elapsed_s()))
        return self._told


def test_a_broker_that_hangs_does_not_move_the_rates_of_the_others() -> None:
    cluster, gauge = Cluster(), TopicGauge(window_s=10.0)
    offsets = KafkaOffsets({"bootstrap.servers": "127.0.0.1:1"}, elapsed_s=cluster.clock.elapsed_s)
    offsets._admin = cast(OffsetAdmin, cluster)
    offsets.layouts = cast(TopicLayouts, cluster)
    rates = []
    for second in range(60):
        cluster.hangs = 30 <= second < 33
        poll = offsets.poll(["ads"])["ads"]
        assert isinstance(poll, OffsetPoll)
        rates.append(float(gauge.take(poll, {}).rates[0]))
        cluster.clock.advance(1.0)

    assert rates[1:] == [pytest.approx(PER_S, rel=0.01)] * 59
