"""Samples come back as they were written; what is none is named and harms nobody else."""

from __future__ import annotations

import json
import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.samples.decode import decode
from services.samples.json_form import id_of
from services.samples.layout import Samples, SampleShape, encode

SHAPE = SampleShape(categorical=3, numeric=2)


def some(count: int, *, shape: SampleShape = SHAPE, seed: int = 1) -> Samples:
    random = np.random.default_rng(seed)
    return Samples(
        labels=random.integers(0, 2, count).astype(np.float32),
        at_s=1.7e9 + random.random(count),
        ids=random.integers(0, 2**63, (count, shape.categorical), dtype=np.uint64),
        numbers=random.normal(size=(count, shape.numeric)).astype(np.float32),
    )


def same(left: Samples, right: Samples) -> bool:
    pairs = ((left.labels, right.labels), (left.at_s, right.at_s), (left.ids, right.ids))
    return all(np.array_equal(a, b) for a, b in (*pairs, (left.numbers, right.numbers)))


def as_json(samples: Samples, row: int, **other: object) -> bytes:
    body = {
        "v": 1,
        "label": float(samples.labels[row]),
        "at_s": float(samples.at_s[row]),
        "ids": [int(value) for value in samples.ids[row]],
        "numbers": [float(value) for value in samples.numbers[row]],
    }
    return json.dumps(body | other).encode()


@given(
    count=st.integers(0, 20),
    categorical=st.integers(1, 30),
    numeric=st.integers(0, 8),
    seed=st.integers(0, 99),
)
def test_what_is_written_is_read_again(count: int, categorical: int, numeric: int, seed: int) -> None:
    shape = SampleShape(categorical, numeric)
    samples = some(count, shape=shape, seed=seed)

    values = encode(samples)
    decoded = decode(values, shape)

    assert all(len(value) == shape.size_bytes for value in values)
    assert same(decoded.samples, samples)
    assert decoded.rejected == {}


def test_json_is_read_as_the_binary_form_is_also_side_by_side() -> None:
    samples = some(4)
    binary = encode(samples)

    decoded = decode([binary[0], as_json(samples, 1), as_json(samples, 2), binary[3]], SHAPE)

    assert same(decoded.samples, samples)


def test_text_in_json_becomes_an_id() -> None:
    decoded = decode([as_json(some(1), 0, ids=["user-7", 42, "de"])], SHAPE)

    assert decoded.samples.ids.tolist() == [[id_of("user-7"), 42, id_of("de")]]


WRONG = {
    "empty": (b"", "it is empty"),
    "deleted": (None, "it is empty"),
    "noise": (b"\x00\x01\x02", "neither a binary sample nor JSON"),
    "half JSON": (b'{"v": 1, "label"', "it is not JSON"),
    "another version": (b"P\x02" + encode(some(1))[0][2:], "schema version is 2; this trainer reads 1"),
    "another version, JSON": (as_json(some(1), 0, v=2), "schema version is 2; this trainer reads 1"),
    "another shape": (
        encode(some(1, shape=SampleShape(2, 1)))[0],
        "has 2 categorical and 1 numeric fields; the job's samples have 3 and 2",
    ),
    "same size, another shape": (
        encode(some(1, shape=SampleShape(2, 4)))[0],
        "has 2 categorical and 4 numeric fields",
    ),
    "cut short": (encode(some(1))[0][:-1], "it has 47 bytes, a sample of its shape has 48"),
    "too few ids": (as_json(some(1), 0, ids=[1]), "ids is not a list of 3"),
    "an id that is none": (as_json(some(1), 0, ids=[1, 2, -3]), "id -3 is neither text nor"),
    "half of a character": (as_json(some(1), 0, ids=["\ud800", 2, 3]), r"id '\\ud800' is no text"),
    "a label of text": (as_json(some(1), 0, label="yes"), "label is 'yes', not a number"),
    "numbers of lists": (as_json(some(1), 0, numbers=[[], 1]), r"one of numbers is \[\], not a number"),
    "a number too large": (as_json(some(1), 0, numbers=[10**400, 1]), "number is too large"),
    "a number that is none": (as_json(some(1), 0, numbers=[float("nan"), 1]), "feature is not finite"),
    "a label that is none": (as_json(some(1), 0, label=float("nan")), "label is nan"),
    "a label of 2": (as_json(some(1), 0, label=2), r"label is 2\.0, not between 0 and 1"),
    "a time that is none": (as_json(some(1), 0, at_s=float("inf")), "event time is inf"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_poisoned_message_is_named_and_the_others_are_read(name: str) -> None:
    value, why = WRONG[name]
    good = some(4)
    first, second, third, fourth = encode(good)

    decoded = decode([first, second, value, third, fourth], SHAPE)

    assert same(decoded.samples, good)
    assert list(decoded.rejected) == [2]
    assert re.search(why, decoded.rejected[2]), decoded.rejected


def test_a_batch_of_nothing_but_poison_leaves_no_sample() -> None:
    decoded = decode([b"x", b"", None], SHAPE)

    assert len(decoded.samples) == 0
    assert sorted(decoded.rejected) == [0, 1, 2]


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_whatever_raise(values: list[bytes]) -> None:
    decoded = decode(values, SHAPE)

    assert len(decoded.samples) + len(decoded.rejected) == len(values)


def test_binary_samples_are_read_far_quicker_than_json() -> None:
    samples = some(2000)
    binary, texts = encode(samples), [as_json(samples, row) for row in range(2000)]

    def took_s(values: list[bytes]) -> float:
        best_s = float("inf")
        for _ in range(3):
            began_s = time.process_time()
            decode(values, SHAPE)
            best_s = min(best_s, time.process_time() - began_s)
        return best_s

    assert took_s(binary) * 5 < took_s(texts)
