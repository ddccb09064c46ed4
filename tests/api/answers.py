"""Records an answer of every operation for the OpenAPI document: `python -m tests.api.answers`.

The answers are those of the site in memory that the tests use, with long lists cut short.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from services.api.openapi import ANSWERS
from tests.api.sites import Rig
from tests.api.test_access import ROUTES, ask

SHOWN = 2
"""Entries of a list that are kept; one more says nothing more."""


def cut_short(document: Any) -> Any:
    """The same shape, without the length."""
    if isinstance(document, dict):
        return {name: cut_short(value) for name, value in document.items()}
    if isinstance(document, list):
        return [cut_short(value) for value in document[:SHOWN]]
    return document


async def record() -> dict[str, Any]:
    """An answer of each operation, by its method and path."""
    found = {}
    for method, path in sorted(ROUTES):
        rig = await Rig().opened()
        rig.controller.tick()
        answer = ask(rig.client(await rig.token()), (method, path), ROUTES[method, path][1])
        assert answer.status_code < 300, (method, path, answer.text)
        found[f"{method} {path}"] = cut_short(answer.json())
    return found


if __name__ == "__main__":
    # One line an operation: a change of one shows as one.
    lines = (f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in asyncio.run(record()).items())
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
