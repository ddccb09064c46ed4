"""What a worker's stream meets.

StreamError
├── LedgerUnavailable    Redis does not answer: finish what is leased, wait, try again
├── SourceUnavailable    Kafka does not answer: wait, try again
├── SourceMissing        Kafka answers and has no such topic: a person must look
├── WithoutLeader        partitions cannot be asked for their ends: wait, try again
├── GroupHasMembers      somebody else consumes as this group: a person must stop them
├── StillTraining        workers hold leases: stop them first
└── CommitRefused        the group's offsets cannot be written now: the ledger still knows them

LeaseLost and NotOpened come from the ledger itself: see shuffler.errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaError


class StreamError(Exception):
    """Anything that keeps a stream from going on, in an expected way."""


class LedgerUnavailable(StreamError):
    """The ledger's Redis does not answer."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"the ledger on Redis at {where} does not answer: {why}")


class SourceUnavailable(StreamError):
    """No broker answers."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"Kafka at {where} does not answer: {why}")


class SourceMissing(StreamError):
    """The topic is not there."""

    def __init__(self, topic: str, where: str) -> None:
        super().__init__(
            f"Kafka at {where} has no topic {topic!r}; create it or mend the job's topic setting"
        )


class WithoutLeader(StreamError):
    """Kafka answers, but not for these partitions."""

    def __init__(self, topic: str, partitions: Sequence[int]) -> None:
        shown = ", ".join(map(str, partitions[:8]))
        super().__init__(
            f"partition {shown} of {topic!r} has no leader, and nothing was moved; try again when it has one"
        )


class GroupHasMembers(StreamError):
    """The job's consumer group is in use."""

    def __init__(self, group: str, members: Sequence[str]) -> None:
        shown = ", ".join(sorted(set(members))[:3])
        super().__init__(
            f"consumer group {group!r} has {len(members)} live member(s) ({shown}): Kafka refuses commits "
            "beside them; stop them, or give the job a group of its own"
        )


class StillTraining(StreamError):
    """Leases are out."""

    def __init__(self, samples: int) -> None:
        super().__init__(
            f"workers hold leases over {samples} samples; stop them, or wait until their leases have lapsed"
        )


class CommitRefused(StreamError):
    """The group's offsets cannot be committed."""

    def __init__(self, group: str, topic: str, error: KafkaError) -> None:
        super().__init__(
            f"group {group!r} cannot commit the watermark of {topic!r}: {error.str()} ({error.name()}); "
            "if the group has members, stop them: a job with leases needs a group of its own"
        )
