"""The objects of a cluster as an API server keeps them: versions, optimistic concurrency, watches, scale."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

Thing = dict[str, Any]


class Refused(Exception):
    """An answer that is not a success."""

    def __init__(self, code: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.code = code
        self.headers = headers


@dataclass(frozen=True)
class Event:
    version: int
    collection: str
    kind: str
    thing: Thing


@dataclass
class Store:
    """Objects by collection path and name. Every write has a version of its own."""

    things: dict[str, dict[str, Thing]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    compacted: int = 0
    """Watches from before this version are told that it is gone."""
    written: asyncio.Event = field(default_factory=asyncio.Event)
    _versions: Iterator[int] = field(default_factory=lambda: itertools.count(100))
    version: int = 99

    def get(self, collection: str, name: str) -> Thing:
        found = self.things.get(collection, {}).get(name)
        if found is None:
            raise Refused(404, f'{collection.rsplit("/", 1)[-1]} "{name}" not found')
        return found

    def put(self, collection: str, thing: Thing, *, expected: str | None = None) -> Thing:
        """Write; with `expected`, only over that version."""
        thing = copy.deepcopy(thing)
        name = thing["metadata"]["name"]
        before = self.things.setdefault(collection, {}).get(name)
        if expected is not None and before is not None and before["metadata"]["resourceVersion"] != expected:
            raise Refused(409, f'Operation cannot be fulfilled on "{name}": the object has been modified')
        thing["metadata"].setdefault("uid", uuid4().hex)
        thing["metadata"].setdefault("creationTimestamp", stamp())
        if before is not None and _same(before, thing):
            return before
        self.things[collection][name] = thing
        self._tell("ADDED" if before is None else "MODIFIED", collection, thing)
        return thing

    def delete(self, collection: str, name: str) -> None:
        self._tell("DELETED", collection, self.things[collection].pop(name))

    def compact(self) -> None:
        """Forget the past, as etcd does every five minutes."""
        self.version = next(self._versions)
        self.compacted = self.version

    def _tell(self, kind: str, collection: str, thing: Thing) -> None:
        self.version = next(self._versions)
        thing["metadata"]["resourceVersion"] = str(self.version)
        self.events.append(Event(self.version, collection, kind, copy.deepcopy(thing)))
        self.written.set()
        self.written = asyncio.Event()


def stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def merged(thing: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(thing) if isinstance(thing, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def pointed(thing: Thing, operations: list[Thing]) -> Thing:
    """RFC 6902, `add` and `replace` of a member alone."""
    result = copy.deepcopy(thing)
    for operation in operations:
        *way, last = operation["path"].split("/")[1:]
        inner: Any = result
        for step in way:
            inner = inner[int(step)] if isinstance(inner, list) else inner[step]
        inner[last] = operation["value"]
    return result


def selected(thing: Thing, labels: str, fields: str) -> bool:
    """Whether the selectors of a list or watch let it through."""
    has = thing["metadata"].get("labels") or {}
    by_label = all(has.get(key) == value for key, value in _pairs(labels))
    return by_label and all(_field(thing, key) == value for key, value in _pairs(fields))


def _pairs(selector: str) -> list[tuple[str, str]]:
    return [(key, value) for key, _, value in (one.partition("=") for one in selector.split(",") if one)]


def _field(thing: Thing, path: str) -> Any:
    found: Any = thing
    for step in path.split("."):
        found = (found or {}).get(step)
    return found


def _same(before: Thing, after: Thing) -> bool:
    def content(thing: Thing) -> Thing:
        return {**thing, "metadata": {**thing["metadata"], "resourceVersion": ""}}

    return content(before) == content(after)
