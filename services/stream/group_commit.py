"""An offset that the consumer group has committed, and whether Penstock wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MARK: Final = "penstock epoch="
"""What our commits carry as metadata: a commit without it was made by somebody else."""


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset of the group. `epoch` is None when Penstock did not write it."""

    offset: int
    epoch: int | None


def mark_of(epoch: int) -> str:
    """The metadata of a commit under `epoch`."""
    return f"{_MARK}{epoch}"


def epoch_of(metadata: str | None) -> int | None:
    """The epoch of a commit; None when the mark is not ours.

    >>> epoch_of(mark_of(12)), epoch_of("")
    (12, None)
    """
    number = (metadata or "").removeprefix(_MARK)
    return int(number) if metadata and metadata.startswith(_MARK) and number.isdigit() else None
