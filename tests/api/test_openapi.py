"""The OpenAPI document tells the truth: schemathesis finds no 500 and no undocumented answer."""

from __future__ import annotations

import itertools
import json
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from services.api.openapi import ANSWERS
from tests.api.answers import record
from tests.api.sites import Rig

# Where one is interrupted, Hypothesis blames the strategy: a starved machine may take its time.
pytestmark = pytest.mark.timeout(600)

PARTS = 8  # so that they run side by side
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """What every application of ours says of itself; it takes a second to make."""
    return Rig().app.openapi()


def test_every_operation_has_words_a_body_example_and_its_problems(document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            place = f"{method} {path}"
            assert operation["description"] if "description" in operation else operation["summary"], place
            assert {"401", "403", "422", "429", "503"} <= set(operation["responses"]), place
            content = operation.get("requestBody", {}).get("content", {})
            for media in content.values():
                assert media.get("examples"), f"{place} has no example"
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_answer_has_an_example_that_its_schema_allows(document: dict[str, Any]) -> None:
    tried = 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for status, response in operation["responses"].items():
                for media, content in response["content"].items():
                    place = f"{method} {path} {status} {media}"
                    assert "example" in content, f"{place} has no example"
                    if media != "text/event-stream":
                        schema = {**content["schema"], "components": document["components"]}
                        jsonschema_rs.validate(schema, content["example"])
                    if media == "application/problem+json":
                        assert content["example"]["status"] == int(status), place
                    tried += 1
    assert tried > 200


async def test_the_recorded_answers_have_every_field_that_answers_have_now() -> None:
    recorded = json.loads(ANSWERS.read_text(encoding="utf-8"))

    made = await record()

    assert shape_of(recorded) == shape_of(made), "run `python -m tests.api.answers`"


def shape_of(document: Any) -> Any:
    """Names without values: numbers and times differ from run to run."""
    if isinstance(document, dict):
        return {name: shape_of(value) for name, value in document.items()}
    return [shape_of(value) for value in document] if isinstance(document, list) else None


@pytest.mark.parametrize("part", range(PARTS))
async def test_schemathesis_finds_nothing(rig: Rig, document: dict[str, Any], part: int) -> None:
    rig.controller.tick()
    rig.app.openapi_schema = document
    token = await rig.token()
    # A stream never ends: tests/api/test_events.py has it.
    schema = schemathesis.openapi.from_asgi("/openapi.json", rig.app).exclude(path="/v1/events")
    for found in itertools.islice(schema.get_all_operations(), part, None, PARTS):
        assert isinstance(found, Ok)
        operation = found.ok()
        statuses = answers_of(operation, token)
        if operation.method.upper() == "GET":
            assert 200 in statuses, f"nothing but {set(statuses)} was ever seen of {operation.path}"


def answers_of(operation: schemathesis.APIOperation[Any, Any, Any, Any], token: str) -> list[int]:
    """The statuses of what the operation answers to all that its schema allows; each is held against it."""
    statuses: list[int] = []

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=operation.as_strategy())
    def check(case: schemathesis.Case[Any]) -> None:
        aim(case, len(statuses))
        response = case.call(headers={"Authorization": f"Bearer {token}", "Host": "localhost"})
        statuses.append(response.status_code)
        # A 503 is an honest answer for a job that nobody has observed; a 500 is a bug.
        assert response.status_code != 500, response.text
        case.validate_response(response, checks=CHECKS)

    check()
    return statuses


def aim(case: schemathesis.Case[Any], number: int) -> None:
    """Names made at random are never those of a job: three in four are sent to one that is there.

    What is deleted is another job, so that the others still find theirs; `*` gets past the version.
    """
    if number % 4 and case.path_parameters and "job_id" in case.path_parameters:
        case.path_parameters["job_id"] = "views" if case.method.upper() == "DELETE" else "clicks"
        if number % 2:
            case.headers["If-Match"] = "*"
