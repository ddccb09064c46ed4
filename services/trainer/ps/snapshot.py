"""A shard's parameters on disk, with the position in the stream that they are good for.

One file each, `<epoch>-<number>.npz`; zip's checksums tell a damaged one. It is written under another name,
forced to the disk and then renamed: a snapshot is there whole or not at all. One written by a shard
that left in order is called `<epoch>-<number>.clean.npz`: nothing was trained after it. The epoch is that
of the shard's process: what a superseded one writes is never the newest.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import structlog
from numpy.typing import NDArray

from services.samples.layout import Floats
from services.trainer.ps.desk import ShardDesk
from services.trainer.ps.errors import SnapshotMisfit
from services.trainer.ps.placement import SLOTS
from services.trainer.ps.table import TableRows
from shuffler.lease import Progress

_log = structlog.get_logger(__name__)

FORMAT: Final = 1
_CLEAN: Final = ".clean.npz"
_NAME: Final = re.compile(r"(\d+-)?\d+(\.clean)?\.npz")
"""Ours; a copy that somebody laid beside them under another name is not."""
_DAMAGED: Final = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    RuntimeError,
    zlib.error,
    zipfile.BadZipFile,
)
"""What reading a damaged file was seen to raise, by where the damage is: an empty one has no end, and a bit
that is wrong in the list of contents makes zip find encryption, or a form that it does not know."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far the stream was trained when the parameters were copied, or a little less."""

    watermarks: Mapping[int, int] = field(default_factory=dict)
    trained: int = 0
    topic_id: str = ""

    @classmethod
    def of(cls, progress: Progress) -> Position:
        """Where the ledger stands."""
        return cls(dict(progress.watermarks), progress.trained, progress.topic_id)

    def starts_again(self, progress: Progress) -> dict[int, int]:
        """Where training must start again when all that came after this position is lost.

        Every partition is named, those included whose watermark did not move: beyond it, too, ranges may
        have been trained. None goes forward: another shard may have lost more. Offsets of another topic
        mean nothing, so a topic made anew starts again from its beginning. Empty when nothing was lost.
        While leases are out that is not known: a worker may have taught batches of one, and tells the
        ledger only at its end. A ledger that Redis had lost counts what is trained anew: then the marks tell.
        """
        if progress.topic_id != self.topic_id:
            return dict.fromkeys(progress.watermarks, 0)
        further = any(mark > self.watermarks.get(p, 0) for p, mark in progress.watermarks.items())
        if progress.trained == self.trained and not further and not progress.out:
            return {}
        return {
            partition: min(mark, self.watermarks.get(partition, 0))
            for partition, mark in progress.watermarks.items()
        }


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A shard's parameters at a position."""

    position: Position
    table: TableRows
    dense: Floats
    dense_squares: Floats
    version: int
    clean: bool = False
    slots: NDArray[np.bool_] = field(default_factory=lambda: np.ones(SLOTS, bool))
    """Whose rows are in it, as far as there are any."""
    path: str | None = None
    """The name of the file that it was read from."""

    @classmethod
    def of(cls, desk: ShardDesk, position: Position, *, clean: bool = False) -> Snapshot:
        """A copy of the desk's parameters. `position` was read before: so none of its samples is missing."""
        return cls(
            position,
            desk.table.content(),
            desk.dense.values.copy(),
            desk.dense.squares.copy(),
            desk.version,
            clean,
            desk.slots.held(),
        )

    def lacks(self, served: NDArray[np.bool_]) -> bool:
        """Whether a slot that is to be served came here after this snapshot."""
        return bool((served & ~self.slots).any())

    def restore(self, desk: ShardDesk) -> None:
        """Give the desk these parameters. Slots that another shard serves by now may be on their way here.

        Raises SnapshotMisfit.
        """
        there, here = self.table.rows.shape[1], desk.table.row_size
        if there != here:
            raise SnapshotMisfit(there - 1, here - 1)  # the first number of a row is its weight
        desk.slots.coming = set(np.flatnonzero(self.slots & ~desk.slots.served).tolist())
        desk.table.restore(self.table)
        desk.dense.restore(self.dense.copy(), self.dense_squares.copy())
        desk.version = self.version


class SnapshotVault:
    """The snapshots of one shard, the newest `kept` of them."""

    def __init__(self, directory: Path, *, kept: int = 3) -> None:
        self.epoch = 0
        """Of the process that writes here."""
        self._directory = directory
        self._kept = kept

    def write(self, snapshot: Snapshot) -> Path:
        """Keep it, and drop the oldest. Raises OSError: then what was there before still is."""
        self._directory.mkdir(parents=True, exist_ok=True)
        name = f"{self.epoch:06d}-{max((_order(path)[1] for path in self._all()), default=0) + 1:010d}"
        path = self._directory / f"{name}{_CLEAN if snapshot.clean else '.npz'}"
        draft = self._directory / f".{name}.{os.getpid()}"
        try:
            with draft.open("wb") as file:
                np.savez(file, allow_pickle=False, **_arrays(snapshot))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        self._force_directory()
        for old in self._all()[: -self._kept]:
            old.unlink(missing_ok=True)
        return path

    def latest(self) -> Snapshot | None:
        """The newest that can be read. A damaged one is told of, and the one before it taken."""
        for path in reversed(self._all()):
            try:
                return _read(path)
            except _DAMAGED as error:
                _log.error(
                    "snapshot_damaged", path=str(path), why=str(error), remedy="the one before is used"
                )
        return None

    @property
    def newest_epoch(self) -> int:
        """Of the processes that wrote here; 0 before any."""
        return max((_order(path)[0] for path in self._all()), default=0)

    def take_over(self, restored: Snapshot) -> None:
        """From now on what is restored is the newest, and a snapshot of this process: more is trained than it
        has, so it is not clean, and what a superseded process may still write does not come before it.

        Raises OSError.
        """
        path = None if restored.path is None else self._directory / restored.path
        if path is None or not path.exists():
            self.write(replace(restored, clean=False))
            return
        path.replace(self._directory / f"{self.epoch:06d}-{_order(path)[1]:010d}.npz")
        self._force_directory()

    def _all(self) -> list[Path]:
        there = (path for path in self._directory.glob("[0-9]*.npz") if _NAME.fullmatch(path.name))
        return sorted(there, key=_order)

    def _force_directory(self) -> None:
        handle = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _order(path: Path) -> tuple[int, int]:
    """Epoch and number. Releases before this one wrote a number alone."""
    epoch, _, number = path.name.partition(".")[0].rpartition("-")
    return int(epoch or 0), int(number)


def _arrays(snapshot: Snapshot) -> dict[str, NDArray[Any]]:
    position = snapshot.position
    about = {
        "format": FORMAT,
        "watermarks": {str(partition): offset for partition, offset in position.watermarks.items()},
        "trained": position.trained,
        "topic_id": position.topic_id,
        "version": snapshot.version,
        "slots": np.flatnonzero(snapshot.slots).tolist(),
    }
    table = snapshot.table
    return {
        "about": np.frombuffer(json.dumps(about).encode(), np.uint8),
        "keys": table.keys,
        "rows": table.rows,
        "squares": table.squares,
        "used": table.used,
        "dense": snapshot.dense,
        "dense_squares": snapshot.dense_squares,
    }


def _read(path: Path) -> Snapshot:
    with zipfile.ZipFile(path) as archive:
        wrong = archive.testzip()  # before numpy believes what an array says of its own size
        if wrong is not None:
            raise ValueError(f"the checksum of {wrong} is wrong")
    with np.load(path, allow_pickle=False) as arrays:
        about = json.loads(arrays["about"].tobytes())
        if about["format"] != FORMAT:
            raise ValueError(f"it has format {about['format']}; this Penstock reads {FORMAT}")
        slots = np.zeros(SLOTS, bool)
        slots[about.get("slots", slice(None))] = True
        watermarks = {int(partition): int(offset) for partition, offset in about["watermarks"].items()}
        return Snapshot(
            Position(watermarks, int(about["trained"]), about["topic_id"]),
            TableRows(arrays["keys"], arrays["rows"], arrays["squares"], arrays["used"]),
            arrays["dense"],
            arrays["dense_squares"],
            int(about["version"]),
            clean=path.name.endswith(_CLEAN),
            slots=slots,
            path=path.name,
        )
