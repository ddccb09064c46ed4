"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy` says what to do; empty when nothing needs doing."""

    what: str
    verdict: Verdict
    detail: str
    remedy: str = ""
