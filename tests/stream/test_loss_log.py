"""Lost samples in the audit log: each range once, none forgotten, and room left for what people did."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.stream.errors import LedgerUnavailable
from services.stream.loss_log import LossLog


class Audit:
    """A log that may be away, and a clock."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.away = False
        self.now_s = 0.0
        self.losses = LossLog("clicks", worker="w1", append=self._append, now_s=lambda: self.now_s)

    def _append(self, entry: bytes) -> None:
        if self.away:
            raise LedgerUnavailable("localhost:6379", "refused")
        self.entries.append(json.loads(entry))

    def offsets(self) -> list[dict[str, Any]]:
        """Of each entry, the ranges by field."""
        return [{change["field"]: change["before"] for change in e["changes"]} for e in self.entries]


def test_nothing_lost_is_no_entry() -> None:
    audit = Audit()
    audit.losses.note(0, [])
    audit.losses.write(at_once=True)

    assert audit.entries == []


def test_ranges_that_touch_are_one() -> None:
    audit = Audit()
    audit.losses.note(3, [(10, 20), (20, 25), (30, 31)])
    audit.losses.note(1, [(0, 5)])
    audit.losses.write()

    assert audit.offsets() == [
        {"partitions.1.offsets": [[0, 5]], "partitions.3.offsets": [[10, 25], [30, 31]]}
    ]
    assert "21 offsets" in audit.entries[0]["reason"]


def test_a_loss_that_goes_on_is_one_entry_in_ten_minutes() -> None:
    audit = Audit()
    for minute in range(21):
        audit.now_s = 60.0 * minute
        audit.losses.note(0, [(minute, minute + 1)])
        audit.losses.write()

    assert [next(iter(found.values()))[0] for found in audit.offsets()] == [[0, 1], [1, 11], [11, 21]]


def test_on_leaving_nothing_waits() -> None:
    audit = Audit()
    for start in (0, 5):
        audit.losses.note(0, [(start, start + 1)])
        audit.losses.write(at_once=True)

    assert len(audit.entries) == 2


def test_what_could_not_be_written_is_written_later() -> None:
    audit = Audit()
    audit.away = True
    audit.losses.note(0, [(0, 5)])
    with pytest.raises(LedgerUnavailable):
        audit.losses.write()

    audit.away = False
    audit.losses.write()
    audit.losses.write(at_once=True)

    assert audit.offsets() == [{"partitions.0.offsets": [[0, 5]]}]
