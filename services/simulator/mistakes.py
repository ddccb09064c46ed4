"""What is wrong with a file of the simulator, in words that a person can act on."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError


def mistakes_in(error: ValidationError, source: str, *, whole: str, unknown: str) -> str:
    """Every mistake on a line of its own.

    `whole` stands for the field where all of the file is meant; `unknown` tells which settings there are.
    """
    lines = [f"{source}: {error.error_count()} mistake(s):"]
    for mistake in error.errors(include_url=False):
        field = ".".join(map(str, mistake["loc"])) or whole
        rule = mistake["msg"].removeprefix("Value error, ")
        if mistake["type"] == "extra_forbidden":
            rule = f"no such setting; {unknown}"
        given = "" if isinstance(mistake["input"], dict | BaseModel) else f" (given: {mistake['input']!r})"
        lines.append(f"  {field}: {rule}{given}")
    return "\n".join(lines)
