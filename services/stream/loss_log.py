"""What will never be trained, written into the audit log: which offsets, when, and who found out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Final

import redis
from redis.exceptions import RedisError

from services.access.audit import AuditEntry, Change
from services.store.connect import address_of
from services.store.keys import Keys
from services.store.streams import AUDIT_KEPT
from services.stream.errors import LedgerUnavailable

LOST: Final = "samples.lost"
_GATHER_S: Final = 600.0
"""Between two entries of one worker: a job that loses samples all day must not push out of the log
what people did."""

Append = Callable[[bytes], None]
"""Adds an entry to the audit log. Raises LedgerUnavailable."""


class LossLog:
    """Entries for losses that the ledger has counted. For any thread.

    The first is written with the next `write`, what follows within ten minutes in one entry
    after them, or with `write(at_once=True)`. Nothing is forgotten while Redis is away.
    """

    def __init__(
        self, job: str, *, worker: str, append: Append, now_s: Callable[[], float] = time.time
    ) -> None:
        self._job = job
        self._worker = worker
        self._append = append
        self._now_s = now_s
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        self._write_at_s = float("-inf")
        self._busy = Lock()

    def note(self, partition: int, ranges: Iterable[tuple[int, int]]) -> None:
        """These offsets, each from the first up to the last without it, are gone."""
        with self._busy:
            for start, end in ranges:
                known = self._ranges.setdefault(partition, [])
                if known and known[-1][1] == start:
                    known[-1] = (known[-1][0], end)
                else:
                    known.append((start, end))

    def write(self, *, at_once: bool = False) -> None:
        """Write what is due. Raises LedgerUnavailable; then it is due again."""
        with self._busy:
            if self._ranges and (at_once or self._now_s() >= self._write_at_s):
                self._append(self._entry().written())
                self._ranges = {}
                self._write_at_s = self._now_s() + _GATHER_S

    def _entry(self) -> AuditEntry:
        gone = sum(end - start for ranges in self._ranges.values() for start, end in ranges)
        return AuditEntry(
            at_s=self._now_s(),
            who=self._worker,
            role="worker",
            action=LOST,
            job=self._job,
            changes=tuple(
                Change(field=f"partitions.{partition}.offsets", before=[list(pair) for pair in ranges])
                for partition, ranges in sorted(self._ranges.items())
            ),
            reason=f"Kafka deleted {gone} offsets before they were trained: longer retention or more workers",
        )


def audit_on(client: redis.Redis, keys: Keys) -> Append:
    """Adds entries to the audit log on Redis, which the API shows."""

    def append(entry: bytes) -> None:
        try:
            client.xadd(keys.audit(), {"entry": entry}, maxlen=AUDIT_KEPT, approximate=True)
        except RedisError as error:
            raise LedgerUnavailable(address_of(client), str(error)) from error

    return append
