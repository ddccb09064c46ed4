"""What went wrong, as RFC 9457 problem documents. One kind for each thing that a caller can do about it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException

from services.control.errors import StateUnavailable
from services.controller.refusals import CommandForbidden, Unchangeable, Unfitting
from services.store.job_record import JobExists, JobsError, NoSuchJob, StaleVersion

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"


class Kind(Enum):
    """Every kind of problem: its name in `type`, its status and its title."""

    TOKEN_MISSING = ("token-missing", 401, "A token is needed")
    TOKEN_INVALID = ("token-invalid", 401, "The token opens nothing")
    FORBIDDEN = ("forbidden", 403, "The token may not do this")
    NOT_FOUND = ("not-found", 404, "There is no such thing")
    METHOD = ("method-not-allowed", 405, "Not possible here")
    CONFLICT = ("conflict", 409, "It does not fit what is there")
    STALE = ("stale-version", 412, "Somebody changed it meanwhile")
    TOO_LARGE = ("too-large", 413, "The request is too large")
    INVALID = ("invalid", 422, "The request cannot be understood")
    VERSION_NEEDED = ("version-needed", 428, "Say which version you read")
    TOO_MANY = ("too-many-requests", 429, "Too many requests")
    BUG = ("internal", 500, "A bug in Penstock")
    NOT_HERE = ("not-available", 501, "This installation cannot do that")
    NOT_READY = ("not-ready", 503, "Not yet, or not now")

    def __init__(self, slug: str, status: int, title: str) -> None:
        self.slug = slug
        self.status = status
        self.title = title

    @property
    def urn(self) -> str:
        """Its name as a problem document has it."""
        return f"urn:penstock:problem:{self.slug}"


class Mistake(BaseModel):
    """One field that is wrong."""

    field: str
    rule: str


class Problem(BaseModel):
    """An RFC 9457 problem document."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:penstock:problem:stale-version",
                    "title": "Somebody changed it meanwhile",
                    "status": 412,
                    "detail": "job 'clicks' is at version 7, not 5: somebody changed it; read it again",
                }
            ]
        }
    )

    type: str
    title: str
    status: int
    detail: str
    errors: list[Mistake] | None = None


class ApiProblem(Exception):
    """Raised by routes; becomes a problem document."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        errors: list[Mistake] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.headers = dict(headers or {})
        self.errors = errors

    def response(self) -> JSONResponse:
        """The document."""
        problem = Problem(
            type=self.kind.urn,
            title=self.kind.title,
            status=self.kind.status,
            detail=printable(str(self)),
            errors=self.errors,
        )
        return JSONResponse(
            problem.model_dump(exclude_none=True),
            status_code=self.kind.status,
            media_type=MEDIA_TYPE,
            headers=self.headers,
        )


def printable(text: str) -> str:
    """Without what cannot be sent: half a surrogate pair is no character."""
    return text.encode("utf-8", "backslashreplace").decode()


def mistakes_in(errors: list[Any]) -> list[Mistake]:
    """What a validation found, without the values: they may be secrets, huge, or not even JSON."""
    found = []
    for error in errors[:50]:
        # FastAPI names the body first; the caller knows that it was the body.
        place = [str(part) for part in error["loc"] if part not in ("body", "[key]")]
        rule = str(error["msg"]).removeprefix("Value error, ")
        if error["type"] == "extra_forbidden":
            rule = "no such field"
        found.append(Mistake(field=printable(".".join(place))[:200] or "body", rule=printable(rule)[:500]))
    return found


def invalid(errors: list[Any]) -> ApiProblem:
    """The problem of a request that breaks rules, all of them listed."""
    mistakes = mistakes_in(errors)
    first = mistakes[0] if mistakes else Mistake(field="body", rule="cannot be read")
    more = f", and {len(mistakes) - 1} more" if len(mistakes) > 1 else ""
    return ApiProblem(Kind.INVALID, f"{first.field}: {first.rule}{more}", errors=mistakes)


_OF_STATUS = {kind.status: kind for kind in reversed(Kind)}
_OF_JOBS: dict[type[JobsError], Kind] = {
    StaleVersion: Kind.STALE,
    JobExists: Kind.CONFLICT,
    NoSuchJob: Kind.NOT_FOUND,
    Unchangeable: Kind.CONFLICT,
    CommandForbidden: Kind.FORBIDDEN,
    Unfitting: Kind.CONFLICT,
}


def explained(error: Exception) -> ApiProblem:
    """The problem behind an error of ours, or of the framework."""
    if isinstance(error, ApiProblem):
        return error
    if isinstance(error, RequestValidationError | ValidationError):
        return invalid(list(error.errors()))
    if isinstance(error, JobsError):
        return ApiProblem(_OF_JOBS[type(error)], str(error))
    if isinstance(error, StateUnavailable):
        return ApiProblem(Kind.NOT_READY, f"the store does not answer: {error}", headers={"Retry-After": "2"})
    if isinstance(error, HTTPException):
        return _of_framework(error)
    log.error("request_broke", exc_info=error)
    return ApiProblem(Kind.BUG, "something broke that should not; the controller's log has the details")


def _of_framework(error: HTTPException) -> ApiProblem:
    if error.status_code == 400:  # a body that is not JSON at all
        return ApiProblem(Kind.INVALID, "body: cannot be read as JSON")
    kind = _OF_STATUS.get(error.status_code, Kind.BUG)
    detail = HTTPStatus(error.status_code).phrase
    return ApiProblem(
        kind, f"{detail}: {error.detail}" if error.detail != detail else detail, headers=error.headers
    )


async def _answer(_request: Request, error: Exception) -> JSONResponse:
    return explained(error).response()


def add_problems(app: FastAPI) -> None:
    """Answer every error with a problem document."""
    expected = (
        ApiProblem,
        RequestValidationError,
        ValidationError,
        JobsError,
        StateUnavailable,
        HTTPException,
    )
    for kind in (*expected, Exception):
        app.add_exception_handler(kind, _answer)
