"""The JSON form of a sample, for producers that cannot write the binary one. Far slower to read.

{"v": 1, "label": 1, "at_s": 1767225600.5, "ids": ["user-7", 42], "numbers": [0.5]}
"""

from __future__ import annotations

import json
from hashlib import blake2b

import numpy as np

from services.samples.layout import VERSION, Samples, SampleShape


class NotASample(ValueError):
    """The message cannot be trained. Says why."""


def id_of(name: str) -> int:
    """The id of a field's value that is text: eight bytes of its hash.

    >>> id_of("user-7") == id_of("user-7") != id_of("user-8")
    True
    """
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def read_json(value: bytes, shape: SampleShape) -> Samples:
    """One sample. Raises NotASample."""
    try:
        body = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise NotASample(f"it is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise NotASample("it is JSON, but no object")
    if body.get("v") != VERSION:
        raise NotASample(f"its schema version is {body.get('v')!r}; this trainer reads {VERSION}")
    ids = _listed(body, "ids", shape.categorical)
    numbers = _listed(body, "numbers", shape.numeric)
    try:
        return Samples(
            labels=np.array([_number("label", body.get("label"))], np.float32),
            at_s=np.array([_number("at_s", body.get("at_s"))], np.float64),
            ids=np.array([[_id(value) for value in ids]], np.uint64).reshape(1, shape.categorical),
            numbers=np.array([[_number("one of numbers", value) for value in numbers]], np.float32).reshape(
                1, shape.numeric
            ),
        )
    except OverflowError as error:
        raise NotASample(f"a number is too large: {error}") from error


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotASample(f"{name} is {value!r}, not a number")
    return float(value)


def _listed(body: dict[str, object], name: str, count: int) -> list[object]:
    value = body.get(name, [])
    if not isinstance(value, list) or len(value) != count:
        raise NotASample(f"{name} is not a list of {count}")
    return value


def _id(value: object) -> int:
    if isinstance(value, str):
        try:
            return id_of(value)
        except UnicodeEncodeError as error:  # JSON can name half of a character, which is no text
            raise NotASample(f"id {value!r} is no text: {error.reason}") from error
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise NotASample(f"id {value!r} is neither text nor a whole number of 64 bits")
    return value
