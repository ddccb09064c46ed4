"""The audit log: who changed what, from what to what."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from services.store.streams import Entry


class Change(BaseModel):
    """One field, before and after; None where it was not there."""

    model_config = ConfigDict(frozen=True)

    field: str
    before: Any = None
    after: Any = None


class AuditEntry(BaseModel):
    """One change."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    id: str = ""
    """Where it stands in the log; grows."""
    at_s: float
    who: str
    """Name and id of the token, or who ran the command."""
    role: str
    action: str
    """`job.create`, `job.slo`, `job.override`, `token.revoke`, ..."""
    job: str | None = None
    version: int | None = None
    """The job's version that was replaced."""
    decision: str | None = None
    """The job's latest decision when the change was made."""
    changes: tuple[Change, ...] = Field(default=())
    reason: str = ""
    """Why, in the operator's words."""

    def written(self) -> bytes:
        """As it lies in the log."""
        return self.model_dump_json(exclude={"id"}).encode()

    @classmethod
    def read(cls, entry: Entry) -> Self:
        """Raises ValidationError when another program has written to the log."""
        return cls.model_validate_json(entry.fields["entry"]).model_copy(update={"id": str(entry.id)})


def differences(before: object, after: object, path: str = "") -> tuple[Change, ...]:
    """Every field that differs, by its dotted path, in order.

    >>> [c.field for c in differences({"slo": {"a": 1, "b": 2}}, {"slo": {"a": 1, "b": 3}, "c": 4})]
    ['c', 'slo.b']
    """
    if isinstance(before, dict) and isinstance(after, dict):
        found: list[Change] = []
        for name in sorted({*before, *after}):
            inner = f"{path}.{name}" if path else str(name)
            found += differences(before.get(name), after.get(name), inner)
        return tuple(found)
    return () if before == after else (Change(field=path, before=before, after=after),)
