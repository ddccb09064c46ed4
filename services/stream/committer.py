"""The thread that commits the watermark to the consumer group, so that Kafka's own tools see the lag."""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Event
from typing import Final

import structlog

from services.stream.errors import CommitRefused, LedgerUnavailable
from services.stream.outage import Outage
from services.stream.ports import LeaseLedger
from services.stream.topic import Topic
from shuffler.errors import NotOpened

_log = structlog.get_logger(__name__)

_ASK_AGAIN_S: Final = 0.02


class Committer:
    """Commits while `run` runs, taking turns with the other workers. Nothing here stops the training."""

    def __init__(self, topic: Topic, ledger: LeaseLedger, *, holder: str, every_s: float) -> None:
        self._topic = topic
        self._ledger = ledger
        self._holder = holder
        self._every_s = every_s
        self._committed: dict[int, int] = {}
        self._outage = Outage("kafka group")

    def run(self, stopped: Event) -> None:
        """Commit now and then until stopped."""
        while not stopped.wait(self._every_s):
            # The feeder meets the same troubles, says so and mends them.
            with suppress(LedgerUnavailable, NotOpened):
                self._commit(every_s=self._every_s)

    def commit_last(self, *, within_s: float) -> None:
        """Commit on leaving, waiting for whoever is at it. A failure is told, not raised."""
        deadline_s = time.monotonic() + within_s
        try:
            while not self._commit(every_s=0.0) and time.monotonic() < deadline_s:
                time.sleep(_ASK_AGAIN_S)
        except (LedgerUnavailable, NotOpened) as error:
            _log.warning("watermark_left_uncommitted", why=str(error))

    def _commit(self, *, every_s: float) -> bool:
        """Whether it was this worker's turn. Raises LedgerUnavailable, NotOpened."""
        if not self._ledger.take_turn(self._holder, every_s=every_s):
            return False
        try:
            progress = self._ledger.progress()
            if progress.watermarks != self._committed:
                self._topic.commit(progress.watermarks, epoch=progress.epoch)
                self._committed = dict(progress.watermarks)
            self._outage.answered()
        except CommitRefused as error:
            self._outage.failed(error)
        finally:
            self._ledger.end_turn(self._holder)
        return True
