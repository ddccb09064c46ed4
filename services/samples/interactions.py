"""A log of labelled interactions as CSV: `timestamp,label,` and then columns of ids and numbers.

    timestamp,label,user,item,price:number
    2026-01-31T08:00:00Z,1,anna,book-7,12.5

A column is an id unless its name ends in `:number` or it was named numeric. Times are seconds or ISO 8601.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from services.samples.json_form import id_of
from services.samples.layout import Samples

_NUMBER: Final = ":number"
_ID: Final = ":id"


class LogInvalid(Exception):
    """The log cannot be read. Names the line and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Interactions:
    """A log in the order of its events."""

    samples: Samples
    ids: tuple[str, ...]
    """Names of the categorical columns."""
    numbers: tuple[str, ...]
    """Names of the numeric ones."""

    @classmethod
    def read(cls, path: Path, *, numeric: Sequence[str] = ()) -> Interactions:
        """The log in `path`. Raises LogInvalid."""
        try:
            with path.open(newline="", encoding="utf-8") as file:
                return _read(csv.reader(file), path.name, set(numeric))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise LogInvalid(f"{path}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Columns:
    """What the columns behind time and label are."""

    names: tuple[str, ...]
    is_number: tuple[bool, ...]

    @classmethod
    def of(cls, head: list[str], name: str, numeric: set[str]) -> _Columns:
        if head[:2] != ["timestamp", "label"] or len(head) < 3:
            raise LogInvalid(f"{name}: line 1 is not `timestamp,label,` and at least one column")
        names = tuple(column.removesuffix(_ID).removesuffix(_NUMBER) for column in head[2:])
        unknown = numeric - set(names)
        if unknown:
            raise LogInvalid(f"{name}: there is no column {', '.join(sorted(unknown))}")
        told = (column.endswith(_NUMBER) for column in head[2:])
        is_number = tuple(said or bare in numeric for said, bare in zip(told, names, strict=True))
        if all(is_number):
            raise LogInvalid(f"{name}: every column is a number; at least one must be an id")
        return cls(names, is_number)

    def named(self, *, number: bool) -> tuple[str, ...]:
        return tuple(
            name for name, is_one in zip(self.names, self.is_number, strict=True) if is_one is number
        )

    def split(self, cells: list[str], where: str) -> tuple[list[int], list[float]]:
        """The ids and the numbers of a row."""
        known = list(zip(cells, self.names, self.is_number, strict=True))
        ids = [id_of(cell) for cell, _, number in known if not number]
        return ids, [_number(cell, where, column) for cell, column, number in known if number]


def _read(rows: Iterator[list[str]], name: str, numeric: set[str]) -> Interactions:
    head = next(rows, [])
    columns = _Columns.of(head, name, numeric)
    times, labels, ids, numbers = [], [], [], []
    for line, row in enumerate(rows, start=2):
        where = f"{name}: line {line}"
        if len(row) != len(head):
            raise LogInvalid(f"{where} has {len(row)} fields, the first line {len(head)}")
        label = _number(row[1], where, "label")
        if not 0 <= label <= 1:
            raise LogInvalid(f"{where}: label {row[1]} is not between 0 and 1")
        row_ids, row_numbers = columns.split(row[2:], where)
        times.append(_time(row[0], where))
        labels.append(label)
        ids.append(row_ids)
        numbers.append(row_numbers)
    if not times:
        raise LogInvalid(f"{name} has no rows")
    samples = Samples(
        labels=np.array(labels, np.float32),
        at_s=np.array(times),
        ids=np.array(ids, np.uint64).reshape(len(times), -1),
        numbers=np.array(numbers, np.float32).reshape(len(times), -1),
    )
    in_order = samples.taken(np.argsort(samples.at_s, kind="stable"))
    return Interactions(in_order, columns.named(number=False), columns.named(number=True))


def _number(text: str, where: str, column: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise LogInvalid(f"{where}: {column} {text!r} is not a number") from error
    if not math.isfinite(value):
        raise LogInvalid(f"{where}: {column} {text!r} is not finite")
    return value


def _time(text: str, where: str) -> float:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return _number(text, where, "timestamp")
    # A date without a zone is taken as UTC: the machine's own zone would shift the log.
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
