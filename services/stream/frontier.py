"""Between Kafka and the ledger: where a job starts, and how far its partitions reach by now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import structlog

from services.stream.group_commit import Commit
from services.stream.plan import StreamPlan
from services.stream.ports import LeaseLedger
from services.stream.topic import Topic
from shuffler.errors import NotOpened

_log = structlog.get_logger(__name__)

_LOOK_FOR_PARTITIONS_S: Final = 30.0


class Frontier:
    """Tells the ledger of partitions and their ends. Any worker may; each does when it is idle."""

    def __init__(self, topic: Topic, ledger: LeaseLedger, plan: StreamPlan) -> None:
        self._topic = topic
        self._ledger = ledger
        self._plan = plan
        self._partitions: tuple[int, ...] = ()
        self._looked_at_s = float("-inf")
        self._told: dict[int, int] = {}

    def open(self) -> int:
        """Open the ledger, unless another worker has: then its partitions stay as they are.

        How many partitions there are. Raises SourceUnavailable, SourceMissing, LedgerUnavailable.
        """
        self._look_for_partitions()
        commits = self._topic.committed(self._partitions)
        starts = self._starts(self._partitions, commits)
        epochs = [commit.epoch for commit in commits.values() if commit.epoch is not None]
        self._ledger.open(starts, after_epoch=max(epochs, default=0))
        _log.info("ledger_opened", topic=self._topic.name, partitions=len(starts))
        return len(starts)

    def refresh(self) -> bool:
        """Tell the ledger how far the partitions reach now; whether any has grown as far as we know.

        A partition that appeared since starts at its beginning. Raises like `open`, and NotOpened
        when the ledger is gone.
        """
        if not self._partitions or time.monotonic() - self._looked_at_s > _LOOK_FOR_PARTITIONS_S:
            self._look_for_partitions()
        ends = self._topic.ends(self._partitions)
        grown = {p: end for p, end in ends.items() if end != self._told.get(p)}
        if not grown:
            return False
        try:
            self._ledger.extend(grown)
        except NotOpened as error:
            if error.partition is None:
                raise
            self._open_new(grown)
            self._ledger.extend(grown)
        self._told.update(grown)
        return True

    def _look_for_partitions(self) -> None:
        self._partitions = self._topic.partitions()
        self._looked_at_s = time.monotonic()
        self._told = {}  # whoever opened a new ledger meanwhile may have died before it told the ends

    def _open_new(self, partitions: Iterable[int]) -> None:
        known = self._ledger.progress().ends
        new = [partition for partition in partitions if partition not in known]
        # One that had no leader when the ledger was opened is not new to the group.
        commits = {p: commit.offset for p, commit in self._topic.committed(new).items()}
        self._ledger.open(self._topic.begins(new) | commits)
        _log.info("partitions_appeared", topic=self._topic.name, partitions=new)

    def _starts(self, partitions: tuple[int, ...], commits: Mapping[int, Commit]) -> dict[int, int]:
        """Where to start: our own commit whatever the settings say, for the job is not new then."""
        begins = self._topic.begins(partitions)
        ends = self._topic.ends(partitions)
        starts = dict(begins)
        if isinstance(self._plan.start, datetime):
            starts |= self._topic.times(partitions, at_s=self._plan.start.timestamp())
        elif self._plan.start == "latest":
            starts |= ends
        for partition, commit in commits.items():
            if commit.epoch is None and self._plan.start != "committed":
                continue
            if commit.offset > ends.get(partition, commit.offset):
                _log.error(
                    "commit_beyond_the_end",
                    partition=partition,
                    committed=commit.offset,
                    end=ends[partition],
                    remedy="starting at the beginning: the topic was recreated or lost records",
                )
                continue
            starts[partition] = commit.offset
        return starts
