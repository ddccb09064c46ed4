"""Does the ledger still fit Kafka? Pure: what each of them says in, what to start anew out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from services.stream.group_commit import Commit
from shuffler.lease import Progress


@dataclass(frozen=True, slots=True)
class Reset:
    """Partitions to start anew, and why."""

    why: str
    partitions: tuple[int, ...]
    starts: Mapping[int, int] | None
    """Where; None for the beginning of what Kafka has."""
    after_epoch: int = 0
    topic_id: str = ""
    lost: int = 0


def reset_needed(progress: Progress, commits: Mapping[int, Commit], *, topic_id: str) -> Reset | None:
    """What to start anew, or None when the ledger is right. `commits` must be older than `progress`.

    A topic of another id is another topic: everything starts at its beginning. A commit with our mark
    that is ahead of the ledger, or of a later epoch, is what a ledger wrote that Redis has lost since:
    it is followed. A commit without our mark, where ours was, is an operator's: it is followed too.
    """
    if topic_id and progress.topic_id and topic_id != progress.topic_id:
        untrained = sum(end - progress.watermarks[p] for p, end in progress.ends.items())
        partitions = tuple(progress.watermarks)
        return Reset("topic_recreated", partitions, None, topic_id=topic_id, lost=untrained)
    ours = {p: c for p, c in commits.items() if c.epoch is not None and p in progress.watermarks}
    ahead = {
        p: commit.offset
        for p, commit in ours.items()
        if (commit.epoch or 0) > progress.epoch
        or (commit.epoch == progress.epoch and commit.offset > progress.watermarks[p])
    }
    if ahead:
        return Reset(
            "ledger_older_than_commit",
            tuple(ahead),
            ahead,
            after_epoch=max(commit.epoch or 0 for commit in ours.values()),
        )
    foreign = {p: c.offset for p, c in commits.items() if c.epoch is None and p in progress.watermarks}
    if foreign and progress.committed:
        return Reset("operator_moved_the_group", tuple(foreign), foreign)
    return None
