"""What a group has committed, where the coordinator has more to say than offsets."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from services.control.errors import TrafficUnavailable
from services.meter.group_commits import GroupCommits


class Coordinator:
    """Knows the commits of all partitions but one, of which it says what is wrong."""

    def committed(self, wanted: Sequence[TopicPartition], timeout: float) -> list[Any]:
        del timeout
        return [self._answer(one.partition) for one in wanted]

    def close(self) -> None:
        pass

    def _answer(self, partition: int) -> Any:
        if partition == 1:
            refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed")
            return SimpleNamespace(partition=partition, offset=-1001, error=refused)
        return SimpleNamespace(partition=partition, offset=500, error=None)


def test_a_commit_that_is_not_told_is_not_one_that_never_was() -> None:
    commits = GroupCommits({"bootstrap.servers": "127.0.0.1:1"}, group="trainers")
    commits._reader.close()
    commits._reader = cast(Consumer, Coordinator())

    with pytest.raises(
        TrafficUnavailable, match=r"group 'trainers' cannot be read.*Topic authorization failed"
    ):
        commits.read("ads", 3)
