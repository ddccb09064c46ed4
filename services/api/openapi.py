"""The OpenAPI document: every answer that a caller can get, problems included."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from services.api.problems import MEDIA_TYPE, Kind, Problem

_ALWAYS = (Kind.TOKEN_MISSING, Kind.FORBIDDEN, Kind.INVALID, Kind.TOO_MANY, Kind.NOT_READY, Kind.TOO_LARGE)
_OF_ONE = (Kind.NOT_FOUND,)
_OF_CHANGES = (Kind.CONFLICT, Kind.STALE)
_OF_FLEET = (Kind.CONFLICT,)
_JOB = "{job_id}"


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
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _add_problems(path, method, operation)
    return document


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
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }


def _asks(path: str) -> bool:
    """Whether it is a question about what would be, that changes nothing."""
    return path.endswith(("/what-if", "/admission"))
