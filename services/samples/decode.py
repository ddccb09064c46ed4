"""From the messages of a batch to columns. What cannot be trained is left out, with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from services.samples.json_form import NotASample, read_json
from services.samples.layout import HEAD, MAGIC, VERSION, Samples, SampleShape, record_of

_BRACE: Final = ord("{")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The samples that can be trained, and why the others cannot, by their place in the batch."""

    samples: Samples
    rejected: dict[int, str]


def decode(values: Sequence[bytes | None], shape: SampleShape) -> Decoded:
    """The samples in the order of their messages, binary and JSON mixed at will.

    Never raises: a message that is no sample is named in `rejected`, and the rest is read.
    """
    size = shape.size_bytes
    alike = [value for value in values if value is not None and len(value) == size and value[0] == MAGIC]
    if len(alike) == len(values):
        records = np.frombuffer(b"".join(alike), record_of(shape))
        return _checked(_columns(records), _misfits(records, alike, shape), np.arange(len(values)))
    return _mixed(values, shape)


def _mixed(values: Sequence[bytes | None], shape: SampleShape) -> Decoded:
    """One by one: rare, or JSON, which is slow in any case."""
    read: list[Samples] = []
    places: list[int] = []
    rejected: dict[int, str] = {}
    for place, value in enumerate(values):
        try:
            read.append(_one(value, shape))
            places.append(place)
        except NotASample as error:
            rejected[place] = str(error)
    samples = Samples.joined(read or [_columns(np.empty(0, record_of(shape)))])
    decoded = _checked(samples, {}, np.array(places, np.int64))
    return Decoded(decoded.samples, dict(sorted({**rejected, **decoded.rejected}.items())))


def _one(value: bytes | None, shape: SampleShape) -> Samples:
    if not value:
        raise NotASample("it is empty")
    if value[0] == _BRACE:
        return read_json(value, shape)
    why = _misfit(value, shape)
    if why:
        raise NotASample(why)
    return _columns(np.frombuffer(value, record_of(shape)))


def _misfit(value: bytes, shape: SampleShape) -> str:
    """Why this is no binary sample of this shape; empty when it is one."""
    if value[0] != MAGIC or len(value) < HEAD.itemsize:
        return "it is neither a binary sample nor JSON"
    if value[1] != VERSION:
        return f"its schema version is {value[1]}; this trainer reads {VERSION}"
    if (value[2], value[3]) != (shape.categorical, shape.numeric):
        return (
            f"it has {value[2]} categorical and {value[3]} numeric fields; "
            f"the job's samples have {shape.categorical} and {shape.numeric}"
        )
    if len(value) != shape.size_bytes:
        return f"it has {len(value)} bytes, a sample of its shape has {shape.size_bytes}"
    return ""


def _misfits(records: NDArray[np.void], values: Sequence[bytes], shape: SampleShape) -> dict[int, str]:
    """By place, those whose head is of another version or shape, though their size is right."""
    wrong = (
        (records["version"] != VERSION)
        | (records["categorical"] != shape.categorical)
        | (records["numeric"] != shape.numeric)
    )
    return {place: _misfit(values[place], shape) for place in np.flatnonzero(wrong).tolist()}


def _columns(records: NDArray[np.void]) -> Samples:
    return Samples(records["label"], records["at_s"], records["ids"], records["numbers"])


def _checked(samples: Samples, misfits: dict[int, str], places: NDArray[np.int64]) -> Decoded:
    """Leave out misfits, and what would poison the parameters: numbers that are none."""
    label_wrong = ~((samples.labels >= 0) & (samples.labels <= 1))
    time_wrong = ~np.isfinite(samples.at_s)
    number_wrong = ~np.isfinite(samples.numbers).all(axis=1)
    bad = label_wrong | time_wrong | number_wrong
    bad[list(misfits)] = True
    if not bad.any():
        return Decoded(samples, {})
    rejected = {}
    for row in np.flatnonzero(bad):
        why = misfits.get(int(row)) or (
            f"its label is {samples.labels[row]}, not between 0 and 1"
            if label_wrong[row]
            else f"its event time is {samples.at_s[row]}"
            if time_wrong[row]
            else "a numeric feature is not finite"
        )
        rejected[int(places[row])] = why
    return Decoded(samples.taken(~bad), rejected)
