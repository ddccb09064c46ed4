"""Where a topic begins and ends, and how far a consumer group has committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from services.settings.root import KafkaSettings
from services.stream.errors import CommitRefused, GroupHasMembers, SourceMissing, StreamError
from services.stream.group_commit import Commit, epoch_of, mark_of
from services.stream.offsets import begin_offsets, explain, stable_ends, time_offsets

_SILENT_CLUSTER: Final = "mockCluster"
"""librdkafka's own broker: it knows no ids of topics, and does not answer when asked."""


_MOVING: Final = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
_ASK_AGAIN_S: Final = 0.1
_GREETING_S: Final = 2.0
"""How long brokers may take to be connected to before a worker is ready without them."""


class Topic:
    """One topic as a consumer group sees it. Every method blocks for `timeout_s` at most.

    Methods raise SourceUnavailable when no broker answers, SourceMissing when there is no such topic.
    """

    def __init__(self, kafka: KafkaSettings, name: str, group: str, *, read_ahead: int = 1000) -> None:
        """`read_ahead` is how many records its consumer keeps fetched while nobody reads."""
        self.name = name
        self._group = group
        self._where = kafka.bootstrap
        self._timeout_s = kafka.timeout_s
        self._kafka = kafka
        self._admin = AdminClient(kafka.client(log_level=2))
        self._coordinator = _Coordinator(kafka, group)
        self.consumer = Consumer(kafka.client(**_reading(group, read_ahead)))
        """Reads ranges by manual assignment; never a member of the group."""
        self._partitions: tuple[int, ...] = ()
        self._id = ""

    def close(self) -> None:
        """Close the connections."""
        self.consumer.close()
        self._coordinator.close()

    def partitions(self) -> tuple[int, ...]:
        """The partitions that there are now."""
        with self._asking():
            # A request that names a topic creates it on some brokers: the first names none.
            asked = {"topic": self.name} if self._partitions else {}
            found = self.consumer.list_topics(timeout=self._timeout_s, **asked).topics.get(self.name)
        if found is None:
            raise SourceMissing(self.name, self._where)
        if found.error is not None:
            raise self._meaning(found.error)
        partitions = tuple(sorted(found.partitions))
        if partitions != self._partitions:
            with self._asking():
                # The admin client answers for partitions from what it remembers of the topic.
                self._admin.list_topics(self.name, timeout=self._timeout_s)
        self._partitions = partitions
        return partitions

    def greet_leaders(self) -> None:
        """Have the consumer connect to every broker that leads a partition: it would otherwise do so with
        the first record that it is asked for. One that is away is met by whoever reads from it."""
        with suppress(KafkaException):
            found = self.consumer.list_topics(self.name, timeout=self._timeout_s).topics[self.name]
            led_by = {place.leader: number for number, place in found.partitions.items() if place.leader >= 0}
            # By time: the one question that goes to all of them at once. What they answer does not matter.
            asked = [TopicPartition(self.name, number, 0) for number in led_by.values()]
            self.consumer.offsets_for_times(asked, timeout=min(_GREETING_S, self._timeout_s))

    def begins(self, partitions: Iterable[int]) -> dict[int, int]:
        """The first offset that Kafka still has of each."""
        with self._asking():
            return begin_offsets(self._admin, self.name, partitions, timeout_s=self._timeout_s)

    def ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """The last stable offset of each: what lies below it is committed or aborted for good.

        A partition without a leader is left out; it comes back with its leader.
        """
        with self._asking():
            return stable_ends(self._admin, self.name, partitions, timeout_s=self._timeout_s)

    def extent(self, partition: int) -> tuple[int, int]:
        """Where the log of one partition begins and ends, from its leader alone."""
        with self._asking():
            low, high = self.consumer.get_watermark_offsets(
                TopicPartition(self.name, partition), timeout=self._timeout_s, cached=False
            )
        return low, high

    def committed(self, partitions: Iterable[int]) -> dict[int, Commit]:
        """What the group has committed; partitions that it never committed are left out."""
        asked = [TopicPartition(self.name, partition) for partition in partitions]
        with self._asking(), self._asking_coordinator() as coordinator:
            found = coordinator.commits_of(asked, timeout_s=self._timeout_s)
        commits = {}
        for answer in found:
            if answer.error is not None:
                raise self._meaning(answer.error)
            if answer.offset >= 0:
                commits[answer.partition] = Commit(answer.offset, epoch_of(answer.metadata))
        return commits

    def id(self) -> str:
        """Kafka's own name of this topic: another one of the same name has another. Empty when the
        broker does not tell."""
        with suppress(KafkaException, TimeoutError):  # what it was last is as good as any
            cluster = self._admin.list_topics(timeout=self._timeout_s).cluster_id
            if str(cluster).startswith(_SILENT_CLUSTER):
                return ""
            asked = self._admin.describe_topics(TopicCollection([self.name]), request_timeout=self._timeout_s)
            self._id = str(asked[self.name].result(timeout=self._timeout_s).topic_id)
        return self._id

    def refuse_members(self) -> None:
        """Raise GroupHasMembers while the group has any: Kafka would refuse every commit of ours.

        A broker that cannot describe groups is believed to have none.
        """
        asked = self._admin.describe_consumer_groups([self._group], request_timeout=self._timeout_s)
        try:
            described = asked[self._group].result(timeout=self._timeout_s)
        except (KafkaException, TimeoutError):
            return
        members = [member.client_id for member in described.members]
        if members:
            raise GroupHasMembers(self._group, members)

    def times(self, partitions: Iterable[int], *, at_s: float) -> dict[int, int]:
        """The first offset of each whose record is not older; its end where all are older."""
        partitions = tuple(partitions)
        with self._asking():
            found = time_offsets(self._admin, self.name, partitions, at_s=at_s, timeout_s=self._timeout_s)
        behind = [p for p in partitions if found.get(p, -1) < 0]
        return {**found, **(self.ends(behind) if behind else {})}

    def commit(self, offsets: Mapping[int, int], *, epoch: int | None) -> None:
        """Commit for the group, without being a member; without our mark when `epoch` is None.

        Partitions that the topic does not have are left out. Raises CommitRefused.

        Through the admin client, which gives up in time: a consumer's commit waits most of a minute
        for a coordinator that is away. A group with live members refuses, and says so for each
        partition only.
        """
        mark = "" if epoch is None else mark_of(epoch)
        wanted = [TopicPartition(self.name, p, offset, mark) for p, offset in offsets.items()]
        try:
            with self._asking_coordinator() as coordinator:
                places = coordinator.commit(wanted, timeout_s=self._timeout_s)
        except KafkaException as error:
            raise CommitRefused(self._group, self.name, error.args[0]) from error
        refused = [place.error for place in places if place.error is not None]
        # A topic made anew may have fewer partitions: the ledger still knows the others.
        worse = [error for error in refused if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART]
        if worse or len(refused) == len(places) > 0:
            raise CommitRefused(self._group, self.name, (worse or refused)[0])

    @contextmanager
    def _asking_coordinator(self) -> Iterator[_Coordinator]:
        """After a failure the next call has new clients: one that knew the coordinator of before a
        broker's death was seen to wait for it for ever, while a new one was answered."""
        try:
            yield self._coordinator
        except KafkaException:
            before, self._coordinator = self._coordinator, _Coordinator(self._kafka, self._group)
            before.close()
            raise

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self._meaning(error.args[0]) from error

    def _meaning(self, error: KafkaError) -> StreamError:
        return explain(error, topic=self.name, where=self._where)


class _Coordinator:
    """The clients that ask for the group's commits and make them; neither is a member.

    A coordinator that is being found, moved or loaded is asked again: a first group makes Kafka
    make the topic of commits, and the broker that will keep it says no until it does.
    """

    def __init__(self, kafka: KafkaSettings, group: str) -> None:
        self._group = group
        self.reader = Consumer(
            kafka.client(**{"group.id": group, "enable.auto.commit": False, "log_level": 2})
        )
        self.admin = AdminClient(kafka.client(log_level=2))

    def commits_of(self, asked: list[TopicPartition], *, timeout_s: float) -> list[TopicPartition]:
        """What the group has committed. Raises KafkaException."""
        return _once_settled(lambda: self.reader.committed(asked, timeout=timeout_s), within_s=timeout_s)

    def commit(self, wanted: list[TopicPartition], *, timeout_s: float) -> list[TopicPartition]:
        """The commits made, each with its own error if it was refused. Raises KafkaException."""
        return _once_settled(lambda: self._commit(wanted, timeout_s), within_s=timeout_s)

    def _commit(self, wanted: list[TopicPartition], timeout_s: float) -> list[TopicPartition]:
        asked = [ConsumerGroupTopicPartitions(self._group, wanted)]
        (answer,) = self.admin.alter_consumer_group_offsets(asked, request_timeout=timeout_s).values()
        made: list[TopicPartition] = answer.result().topic_partitions
        moving = next((place.error for place in made if place.error and place.error.code() in _MOVING), None)
        if moving is not None:
            raise KafkaException(moving)
        return made

    def close(self) -> None:
        """Close the connections; the admin client's go with it."""
        self.reader.close()


def _once_settled(ask: Callable[[], list[TopicPartition]], *, within_s: float) -> list[TopicPartition]:
    """The answer of a coordinator that knows by now that it is one. Raises KafkaException."""
    deadline_s = time.monotonic() + within_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in _MOVING or time.monotonic() >= deadline_s:
                raise
            time.sleep(_ASK_AGAIN_S)


def _reading(group: str, read_ahead: int) -> dict[str, str | int | bool]:
    """How ranges are read: nothing is skipped silently, jumps fetch little that is not used."""
    return {
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # With the default, a range that retention has deleted would be skipped without a word.
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 10,
        # The three together keep what is fetched near what is used when jumping between ranges.
        "queued.min.messages": read_ahead,
        "fetch.queue.backoff.ms": 2,
        "fetch.message.max.bytes": 262_144,
        "log_level": 2,
    }
