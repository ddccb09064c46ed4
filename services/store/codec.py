"""State, decisions, actuations, assignments and reports as compact JSON, in envelopes that tell the format.

`{"v":1,"state":{...}}`. What cannot be read raises StateCorrupt, which names the key and what to do;
it is never read as "nothing there". Infinities and NaN are written as strings: JSON has no other way.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar

import structlog
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from estimator.rules import UnknownRule, rule_named
from services.control.actuation import Actuation, Settlement
from services.control.learned import PoolMemory, Throughput
from services.control.safety import SafetyMemory
from services.control.types import ControlState, Decision, WorkerReport
from services.store.errors import StateCorrupt
from shuffler.assignment import Assignment

FORMAT = 1
"""Raised when an older Penstock would misread what a newer one writes; docs/store.md has the rule."""

_RESTORE = "restore it from a backup, or delete the key and let it be written afresh"
_UPGRADE = "upgrade this Penstock, or delete the key and let it be written afresh"

_STATE = TypeAdapter(ControlState)
_LEARNED: dict[str, TypeAdapter[Any]] = {
    "throughput": TypeAdapter(Throughput),
    "pool": TypeAdapter(PoolMemory),
    "safety": TypeAdapter(SafetyMemory),
}
_DECISION = TypeAdapter(Decision)
_ACTUATION = TypeAdapter(Actuation)
_SETTLEMENT = TypeAdapter(Settlement)
_ASSIGNMENT = TypeAdapter(Assignment)
_REPORT = TypeAdapter(WorkerReport)

Stored = TypeVar("Stored")

log = structlog.get_logger(__name__)


def encode_state(state: ControlState) -> bytes:
    """The rule's memory goes along as it is; its rule knows how to read it."""
    return _envelope("state", state)


def decode_state(raw: bytes | str, *, key: str) -> ControlState:
    """The state as it was, its memory in the type that its rule declares.

    A rule that no longer exists, or whose memory has another shape by now, is no reason to forget
    the plan: then everything is kept but the memory, which starts afresh, and the log says so. The
    same goes for what was learned of throughput and pool, and for numbers that are none: all that can
    be learned again.
    """
    body = _opened(raw, "state", key)
    if isinstance(body, dict):
        body = {name: part for name, part in body.items() if _can_be_read(name, part, key)}
    state = _validated(_STATE, body, key)
    return replace(state, memory=_memory_of(state, key)) if state.rule else state


def encode_decision(decision: Decision) -> bytes:
    """Without its `state`: that is stored once, not with each decision."""
    told = {field.name: getattr(decision, field.name) for field in fields(decision) if field.name != "state"}
    return _envelope("decision", told)


def decode_decision(raw: bytes | str, *, key: str) -> Decision:
    """The decision with a default `ControlState()` in the place of its own."""
    body = _opened(raw, "decision", key)
    if isinstance(body, dict):
        body = {**body, "state": {}}
    return _validated(_DECISION, body, key)


def encode_actuation(actuation: Actuation) -> bytes:
    return _envelope("actuation", actuation)


def decode_actuation(raw: bytes | str, *, key: str) -> Actuation:
    return _decode(_ACTUATION, raw, "actuation", key)


def encode_settlement(settlement: Settlement) -> bytes:
    return _envelope("settlement", settlement)


def decode_settlement(raw: bytes | str, *, key: str) -> Settlement:
    return _decode(_SETTLEMENT, raw, "settlement", key)


def encode_assignment(assignment: Assignment) -> bytes:
    return _envelope("assignment", assignment)


def decode_assignment(raw: bytes | str, *, key: str) -> Assignment:
    return _decode(_ASSIGNMENT, raw, "assignment", key)


def encode_report(report: WorkerReport) -> bytes:
    return _envelope("report", report)


def decode_report(raw: bytes | str, *, key: str) -> WorkerReport:
    """Numbers that are not finite are refused: they would poison every mean they enter."""
    report = _decode(_REPORT, raw, "report", key)
    for name in ("at_s", "busy", "rate_per_busy_s"):
        if not math.isfinite(number := getattr(report, name)):
            raise StateCorrupt(key, wrong=f"{name} is {number}", remedy="mend the worker that wrote it")
    quality = report.quality
    for told in (quality.auc or 0.0, quality.logloss, quality.sample_age_s) if quality else ():
        if not math.isfinite(told):
            raise StateCorrupt(key, wrong=f"quality has {told}", remedy="mend the worker that wrote it")
    return report


def _envelope(kind: str, body: object) -> bytes:
    return to_json({"v": FORMAT, kind: body}, inf_nan_mode="strings")


def _decode(adapter: TypeAdapter[Stored], raw: bytes | str, kind: str, key: str) -> Stored:
    return _validated(adapter, _opened(raw, kind, key), key)


def _opened(raw: bytes | str, kind: str, key: str) -> object:
    try:
        envelope = from_json(raw)
    except ValueError as error:
        raise StateCorrupt(key, wrong=f"is not JSON ({error})", remedy=_RESTORE) from error
    version = envelope.get("v") if isinstance(envelope, dict) else None
    if not isinstance(version, int) or kind not in envelope:
        raise StateCorrupt(key, wrong=f"holds no {kind} of Penstock", remedy=_RESTORE)
    if version != FORMAT:
        wrong = f"has format {version}, and this Penstock reads format {FORMAT}"
        raise StateCorrupt(key, wrong=wrong, remedy=_UPGRADE if version > FORMAT else _RESTORE)
    return envelope[kind]


def _validated(adapter: TypeAdapter[Stored], body: object, key: str) -> Stored:
    try:
        return adapter.validate_python(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "content"
        raise StateCorrupt(key, wrong=f"{field}: {first['msg']}", remedy=_RESTORE) from error


def _can_be_read(name: str, part: object, key: str) -> bool:
    """False for learned values of another shape, or with numbers that are none: told of and left out."""
    if name not in _LEARNED:
        return True
    try:
        _finite(_LEARNED[name], part)
    except ValueError as error:
        log.warning("learned_values_forgotten", key=key, part=name, why=str(error))
        return False
    return True


def _finite(adapter: TypeAdapter[Stored], part: object) -> Stored:
    """What the part holds. Raises ValueError, of which pydantic's error is one.

    A number that is not finite would enter every mean, and break each tick from then on.
    """
    read = adapter.validate_python(part)
    if not _all_finite(adapter.dump_python(read)):
        raise ValueError("it has a number that is infinite, or none")
    return read


def _all_finite(dumped: object) -> bool:
    if isinstance(dumped, dict):
        return all(map(_all_finite, dumped)) and all(map(_all_finite, dumped.values()))
    if isinstance(dumped, list | tuple | set | frozenset):
        return all(map(_all_finite, dumped))
    return not isinstance(dumped, float) or math.isfinite(dumped)


def _memory_of(state: ControlState, key: str) -> object:
    """What JSON made of the memory, as its rule's own type again."""
    try:
        kind, adapter = _memory_kind(state.rule)
    except UnknownRule:
        log.warning("rule_memory_forgotten", key=key, rule=state.rule, why="no such rule any more")
        return None
    try:
        return _finite(adapter, state.memory)
    except ValueError as error:
        log.warning("rule_memory_forgotten", key=key, rule=state.rule, why=str(error))
        return kind()


@cache
def _memory_kind(rule: str) -> tuple[type[Any], TypeAdapter[Any]]:
    """Building an adapter takes milliseconds; using it, microseconds."""
    kind = rule_named(rule).memory
    return kind, TypeAdapter(kind)
