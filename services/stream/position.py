"""Move a job to another position, take over from a consumer group, hand back to one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from services.settings.root import KafkaSettings
from services.stream.errors import StillTraining, WithoutLeader
from services.stream.ports import LeaseLedger
from services.stream.topic import Topic
from shuffler.errors import NotOpened

Target = Literal["earliest", "latest"] | datetime | Mapping[int, int]
"""Where to: an end of the log, a time, or an offset for each partition to move."""


def rewind(topic: Topic, ledger: LeaseLedger, to: Target) -> dict[int, int]:
    """Train again, or skip, from `to`; where each partition that moves starts now.

    Works while workers run: the epoch rises, what they hold is lost to them, and they go on from
    there. Offsets that Kafka does not have are moved to the nearest that it has, and partitions that it does
    not have are left out. Raises StreamError: also where a partition has no leader, for it would stay
    where it is.
    """
    partitions = topic.partitions()
    begins, ends = topic.begins(partitions), topic.ends(partitions)
    asked = set(partitions) if isinstance(to, str | datetime) else {p for p in to if p in partitions}
    silent = asked - (begins.keys() & ends.keys())
    if silent:
        raise WithoutLeader(topic.name, sorted(silent))
    wanted = _starts(topic, to, begins, ends)
    starts = {p: min(max(offset, begins[p]), ends[p]) for p, offset in wanted.items() if p in begins}
    commits = topic.committed(partitions)
    heard = max((commit.epoch or 0 for commit in commits.values()), default=0)
    try:
        ledger.reset(starts, ends, after_epoch=heard)
    except NotOpened:
        known = {p: commit.offset for p, commit in commits.items()}
        ledger.open({**begins, **known, **starts}, after_epoch=heard, topic_id=topic.id())
        ledger.extend(ends)
    topic.commit(starts, epoch=ledger.progress().epoch)
    return starts


def take_over(topic: Topic, ledger: LeaseLedger, kafka: KafkaSettings, group: str) -> dict[int, int]:
    """Go on where the consumer group `group` stopped. Raises GroupHasMembers while it has not."""
    other = Topic(kafka, topic.name, group)
    try:
        other.refuse_members()
        commits = other.committed(topic.partitions())
    finally:
        other.close()
    return rewind(topic, ledger, {p: commit.offset for p, commit in commits.items()})


def hand_back(topic: Topic, ledger: LeaseLedger, kafka: KafkaSettings, group: str) -> dict[int, int]:
    """Commit for `group` how far everything is trained, so that its own consumers go on there.

    Raises StillTraining while leases are out, GroupHasMembers while the group is in use already.
    """
    progress = ledger.progress()
    if progress.out:
        raise StillTraining(progress.out)
    other = Topic(kafka, topic.name, group)
    try:
        other.refuse_members()
        other.commit(progress.watermarks, epoch=None)
    finally:
        other.close()
    return dict(progress.watermarks)


def _starts(
    topic: Topic, to: Target, begins: Mapping[int, int], ends: Mapping[int, int]
) -> Mapping[int, int]:
    if isinstance(to, datetime):
        return topic.times(begins, at_s=to.timestamp())
    if isinstance(to, str):
        return begins if to == "earliest" else ends
    return to
