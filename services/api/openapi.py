"""The OpenAPI document: every answer that a caller can get, problems included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from services.api.problems import MEDIA_TYPE, Kind, Mistake, Problem

_ALWAYS = (Kind.TOKEN_MISSING, Kind.FORBIDDEN, Kind.INVALID, Kind.TOO_MANY, Kind.NOT_READY, Kind.TOO_LARGE)
_OF_ONE = (Kind.NOT_FOUND,)
_OF_CHANGES = (Kind.CONFLICT, Kind.STALE)
_OF_FLEET = (Kind.CONFLICT,)
_JOB = "{job_id}"

ANSWERS = Path(__file__).parent / "answers.json"
"""An answer of every operation, recorded by `python -m tests.api.answers`."""

_DETAILS = {
    Kind.TOKEN_MISSING: "send the header `Authorization: Bearer TOKEN`",
    Kind.FORBIDDEN: "this needs the role operator; the token has viewer",
    Kind.NOT_FOUND: "no job is called 'clocks'; there are: clicks, views",
    Kind.CONFLICT: "99 workers is outside the job's limits, 1 to 16; change the limits first",
    Kind.STALE: "job 'clicks' is at version 7, not 5: somebody changed it; read it again",
    Kind.TOO_LARGE: "a request may have 262144 bytes; this one has more",
    Kind.INVALID: "slo.fresh_within_s: Input should be greater than 0",
    Kind.VERSION_NEEDED: "send If-Match with the ETag that you read (or * to overwrite whatever is there)",
    Kind.TOO_MANY: "too many requests; try again in 1 s",
    Kind.NOT_HERE: "this controller was started without a simulator",
    Kind.NOT_READY: "job 'clicks' has not been observed yet; try again in a moment",
}
"""What a problem of each kind says, for example."""


def describe(app: FastAPI) -> None:
    """Let the application tell the whole truth under /openapi.json."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # the way the framework documents


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    document["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "`penstock token create` makes one."}
    }
    document["security"] = [{"token": []}]
    answers = json.loads(ANSWERS.read_text(encoding="utf-8"))
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _add_answer(answers.get(f"{method.upper()} {path}"), operation)
            _add_problems(path, method, operation)
    return document


def _add_answer(answer: Any, operation: dict[str, Any]) -> None:
    """What the operation answers when all is well; the stream of events has an example of its own."""
    for status in ("200", "201"):
        content = operation["responses"].get(status, {}).get("content", {})
        if answer is not None and "application/json" in content:
            content["application/json"]["example"] = answer


def _add_problems(path: str, method: str, operation: dict[str, Any]) -> None:
    kinds = [*_ALWAYS]
    kinds += _OF_ONE if _JOB in path else ()
    kinds += _OF_FLEET if path.startswith("/v1/fleet/") else ()
    kinds += _OF_CHANGES if method != "get" and not _asks(path) else ()
    if any(p["name"].lower() == "if-match" for p in operation.get("parameters", [])):
        kinds.append(Kind.VERSION_NEEDED)
    if _asks(path):
        kinds.append(Kind.NOT_HERE)
    for kind in kinds:
        operation["responses"][str(kind.status)] = {
            "description": kind.title,
            "content": {
                MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": _example(kind)}
            },
        }


def _example(kind: Kind) -> dict[str, Any]:
    problem = Problem(type=kind.urn, title=kind.title, status=kind.status, detail=_DETAILS[kind])
    if kind is Kind.INVALID:
        problem.errors = [Mistake(field="slo.fresh_within_s", rule="Input should be greater than 0")]
    return problem.model_dump(exclude_none=True)


def _asks(path: str) -> bool:
    """Whether it is a question about what would be, that changes nothing."""
    return path.endswith(("/what-if", "/admission"))
