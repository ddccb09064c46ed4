"""An offset that the consumer group has committed, and whether Penstock wrote it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_MARK: Final = "penstock epoch="
"""What our commits carry as metadata: a commit without it was made by somebody else."""
_OURS: Final = re.compile(_MARK + "([0-9]{1,15})")


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset of the group. `epoch` is None when Penstock did not write it."""

    offset: int
    epoch: int | None


def mark_of(epoch: int) -> str:
    """The metadata of a commit under `epoch`."""
    return f"{_MARK}{epoch}"


def epoch_of(metadata: str | None) -> int | None:
    """The epoch of a commit; None when the mark is not ours: no clock ever gives a longer number,
    and Redis could not tell it from the next.

    >>> epoch_of(mark_of(12)), epoch_of(""), epoch_of(mark_of(10**15))
    (12, None, None)
    """
    found = _OURS.fullmatch(metadata or "")
    return int(found[1]) if found else None
