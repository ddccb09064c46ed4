"""The definition of a job as it is stored: its settings, its version, and what operators set on top.

JobsError
├── StaleVersion     somebody else has changed the job since it was read
├── JobExists        the name is taken
└── NoSuchJob        no job has this name
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, field_serializer

from services.control.types import Override, Policy
from services.settings import JobSettings
from services.store.errors import StateCorrupt

FORMAT = 1
"""Of the stored definition; docs/store.md has the rule for raising it."""

_RESTORE = (
    "restore it from a backup (`penstock backup restore --replace`), or delete the field and define the job "
    "again"
)
_UPGRADE = "upgrade this Penstock"


class JobsError(Exception):
    """A change of a job that cannot be made as asked for."""


class StaleVersion(JobsError):
    """The job was changed by somebody else since it was read."""

    def __init__(self, job: str, *, expected: int, found: int) -> None:
        super().__init__(
            f"job {job!r} is at version {found}, not {expected}: somebody changed it; read it again"
        )
        self.found = found


class JobExists(JobsError):
    """The name is taken."""

    def __init__(self, job: str, *, why: str = "there is one already") -> None:
        super().__init__(f"job {job!r} cannot be made: {why}")


class NoSuchJob(JobsError):
    """No job has this name."""

    def __init__(self, job: str) -> None:
        super().__init__(f"no job is called {job!r}")


class Record(BaseModel):
    """Frozen; fields that a newer Penstock may have added are passed over."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class _Format(Record):
    """Read first: what another format has in the rest is nothing to complain of."""

    v: int = FORMAT


class OverrideRecord(Record):
    """A size that an operator set, until when, and why."""

    workers: int
    until_s: float
    reason: str
    by: str


class PauseRecord(Record):
    """Who paused the job, when and why."""

    at_s: float
    reason: str
    by: str


class RollbackRecord(Record):
    """The version of the forecasting models that is not to be served any more, and who said so."""

    version: str
    at_s: float
    reason: str
    by: str


class JobRecord(Record):
    """One job as it is in force, or as it was when it was deleted."""

    v: int = FORMAT
    name: str
    settings: JobSettings
    version: int = 0
    """Unique among all changes of all jobs; 0 before it was stored."""
    changed_at_s: float = 0.0
    changed_by: str = ""
    pause: PauseRecord | None = None
    override: OverrideRecord | None = None
    rollback: RollbackRecord | None = None
    """The last one; the version that serves instead stays until a training beats it."""
    deleted: bool = False
    forget: bool = False
    """Of a deleted job: its ledger and history are to go too."""
    retired: bool = False
    """Of a deleted job: its workers are gone, and the name is free."""

    @field_serializer("settings")
    def _as_given(self, settings: JobSettings) -> dict[str, Any]:
        return settings.as_given()

    def policy(self, *, stale_after_s: float, fleet_resizes_per_hour: int | None = None) -> Policy:
        """What the tick needs of all this."""
        override = self.override
        return replace(
            self.settings.policy(stale_after_s=stale_after_s, fleet_resizes_per_hour=fleet_resizes_per_hour),
            standing=self.settings.standing(self.name),
            paused=self.pause is not None,
            override=None if override is None else Override(override.workers, override.until_s),
        )

    def written(self) -> bytes:
        """As it lies in Redis."""
        return self.model_dump_json().encode()

    @classmethod
    def read(cls, raw: bytes | str, *, key: str) -> Self:
        """Raises StateCorrupt, naming the key: a job that cannot be read is not a job that is not there.

        What a newer Penstock may have added to the settings is passed over too, though people may not
        give it: one can go back a release.
        """
        try:
            version = _Format.model_validate_json(raw).v
            if version == FORMAT:
                return cls.model_validate_json(raw, extra="ignore")
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"]) or "content"
            raise StateCorrupt(key, wrong=f"{field}: {first['msg']}", remedy=_RESTORE) from error
        wrong = f"has format {version}, and this Penstock reads format {FORMAT}"
        raise StateCorrupt(key, wrong=wrong, remedy=_UPGRADE if version > FORMAT else _RESTORE)
