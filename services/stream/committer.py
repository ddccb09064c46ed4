"""The thread that commits the watermark to the consumer group, so that Kafka's own tools see the lag."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event
from typing import Final

import structlog

from services.stream.errors import LedgerUnavailable, SourceMissing, SourceUnavailable, StreamError
from services.stream.frontier import Frontier
from services.stream.group_commit import Commit
from services.stream.loss_log import LossLog
from services.stream.outage import Outage
from services.stream.ports import LeaseLedger
from services.stream.reconcile import Reset, reset_needed
from services.stream.topic import Topic
from shuffler.errors import NotOpened
from shuffler.lease import Progress

_log = structlog.get_logger(__name__)

_ASK_AGAIN_S: Final = 0.02
_COMMIT_ANYWAY_S: Final = 12 * 3600.0
"""Kafka forgets the offsets of a group that commits nothing: idle partitions are committed again."""
_LOOK_FOR_TOPIC_S: Final = 10.0
"""How often to ask whether the topic is still the same."""


class Committer:
    """Commits while `run` runs, taking turns with the other workers. Nothing here stops the training.

    Whoever has the turn also looks whether somebody else moved the group's offsets, whether the
    ledger is older than the commit, whether the topic was made anew, and adopts what it finds. Then it
    tells the ledger how far the partitions reach, and again half-way to the next turn: while some of
    them keep all workers busy, nobody else would hear of new samples in the others.
    """

    def __init__(
        self,
        topic: Topic,
        ledger: LeaseLedger,
        frontier: Frontier,
        *,
        holder: str,
        every_s: float,
        losses: LossLog,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topic = topic
        self._ledger = ledger
        self._frontier = frontier
        self._holder = holder
        self._every_s = every_s
        self._losses = losses
        self._now_s = now_s
        self._committed_at_s = now_s()
        self._known: tuple[int, ...] = ()
        self._topic_id = ""
        self._looked_at_s = float("-inf")
        self._told: set[tuple[int, int, int]] = set()
        self._outage = Outage("kafka group")

    def run(self, stopped: Event) -> None:
        """Commit now and then until stopped."""
        while not stopped.wait(self._every_s):
            # The feeder meets the same troubles, says so and mends them.
            with suppress(LedgerUnavailable, NotOpened, SourceUnavailable, SourceMissing):
                if self.commit(every_s=self._every_s):
                    self._frontier.refresh()
                    if not stopped.wait(self._every_s / 2):  # nobody else looks before the next turn
                        self._frontier.refresh()

    def commit_last(self, *, within_s: float) -> None:
        """Commit on leaving, waiting for whoever is at it. A failure is told, not raised."""
        deadline_s = time.monotonic() + within_s
        try:
            while not self.commit(every_s=0.0) and time.monotonic() < deadline_s:
                time.sleep(_ASK_AGAIN_S)
        except (LedgerUnavailable, NotOpened) as error:
            _log.warning("watermark_left_uncommitted", why=str(error))

    def commit(self, *, every_s: float) -> bool:
        """Whether it was this worker's turn. Raises LedgerUnavailable, NotOpened."""
        if not self._ledger.take_turn(self._holder, every_s=every_s):
            return False
        committed = False
        try:
            committed = self._reconcile_and_commit()
            self._outage.answered()
        except (LedgerUnavailable, NotOpened):
            raise
        except StreamError as error:
            self._outage.failed(error)
        finally:
            self._ledger.end_turn(self._holder, committed=committed)
        return True

    def reconcile(self) -> None:
        """Look once whether the ledger fits the group. Raises StreamError, NotOpened."""
        self._reconciled()

    def _reconcile_and_commit(self) -> bool:
        """Whether the group holds our watermark now. Raises StreamError, NotOpened."""
        self._look_for_topic()
        found = self._reconciled()
        if found is None:
            return False
        progress, commits = found
        wanted = {p: Commit(offset, progress.epoch) for p, offset in progress.watermarks.items()}
        if commits != wanted or self._now_s() - self._committed_at_s >= _COMMIT_ANYWAY_S:
            self._topic.commit(progress.watermarks, epoch=progress.epoch)
            self._committed_at_s = self._now_s()
        return True

    def _reconciled(self) -> tuple[Progress, Mapping[int, Commit]] | None:
        """Where the ledger stands, and what the group has; None when the ledger was started anew.

        The group is asked before the ledger: the ledger moves on meanwhile, never the group.
        """
        self._known = self._known or tuple(self._ledger.progress().watermarks)
        commits = self._topic.committed(self._known)
        progress = self._ledger.progress()
        self._known = tuple(progress.watermarks)
        if self._topic_id and not progress.topic_id:
            self._ledger.open({}, topic_id=self._topic_id)
        self._tell_quarantined(progress)
        reset = reset_needed(progress, commits, topic_id=self._topic_id)
        if reset is not None:
            self._adopt(reset)
            if reset.lost:
                for partition, end in progress.ends.items():
                    self._losses.note(partition, [(progress.watermarks[partition], end)])
            return None
        return progress, commits

    def _look_for_topic(self) -> None:
        if self._now_s() - self._looked_at_s >= _LOOK_FOR_TOPIC_S:
            self._topic_id = self._topic.id()
            self._looked_at_s = self._now_s()

    def _adopt(self, reset: Reset) -> None:
        """Raise the epoch and start again from there: what workers still hold is lost to them."""
        begins, ends = self._topic.begins(reset.partitions), self._topic.ends(reset.partitions)
        # Of a partition without a leader, or that the new topic does not have, nothing is trained either.
        starts = reset.starts if reset.starts is not None else {p: begins.get(p, 0) for p in reset.partitions}
        self._ledger.reset(
            {p: min(max(start, begins.get(p, start)), ends.get(p, start)) for p, start in starts.items()},
            ends,
            after_epoch=reset.after_epoch,
            topic_id=reset.topic_id,
            lost=reset.lost,
        )
        _log.warning("ledger_reset", why=reset.why, starts=dict(starts), lost=reset.lost)

    def _tell_quarantined(self, progress: Progress) -> None:
        for partition, ranges in progress.quarantined.items():
            for start, end in ranges:
                if (partition, start, end) not in self._told:
                    self._told.add((partition, start, end))
                    _log.error(
                        "samples_quarantined",
                        topic=self._topic.name,
                        partition=partition,
                        offsets=[start, end],
                        remedy="every worker that took them fell silent: look at these samples; they are "
                        "left out, and `penstock rewind` trains them again",
                    )
