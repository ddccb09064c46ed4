"""Waiting for something to become true. The only place in the tests that sleeps."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

Value = TypeVar("Value")


def eventually(
    condition: Callable[[], Value], *, within_s: float = 60.0, every_s: float = 0.02, what: str = ""
) -> Value:
    """The first true value of `condition`, asked again and again until the deadline.

    An assertion that fails inside `condition` counts as not yet true. Raises AssertionError that
    names what did not happen. The deadline is a safety net, not an expectation: be generous.

    >>> tries = iter([0, 0, 3])
    >>> eventually(lambda: next(tries), what="a third try")
    3
    """
    deadline_s = time.monotonic() + within_s
    while True:
        seen, why = _ask(condition)
        if seen:
            return seen
        if time.monotonic() >= deadline_s:
            raise AssertionError(_complaint(condition, what, within_s, why))
        time.sleep(every_s)


@overload
async def eventually_async(
    condition: Callable[[], Awaitable[Value]], *, within_s: float = ..., every_s: float = ..., what: str = ...
) -> Value: ...


@overload
async def eventually_async(
    condition: Callable[[], Value], *, within_s: float = ..., every_s: float = ..., what: str = ...
) -> Value: ...


async def eventually_async(
    condition: Callable[[], object], *, within_s: float = 60.0, every_s: float = 0.02, what: str = ""
) -> object:
    """As `eventually`, leaving the event loop free; `condition` may be a coroutine function."""
    deadline_s = time.monotonic() + within_s
    while True:
        seen, why = await _ask_async(condition)
        if seen:
            return seen
        if time.monotonic() >= deadline_s:
            raise AssertionError(_complaint(condition, what, within_s, why))
        await asyncio.sleep(every_s)


def _ask(condition: Callable[[], Value]) -> tuple[Value | None, str]:
    try:
        seen = condition()
    except AssertionError as error:
        return None, str(error)
    return seen, f"last seen: {seen!r}"


async def _ask_async(condition: Callable[[], object]) -> tuple[object, str]:
    try:
        asked = condition()
        seen = await asked if inspect.isawaitable(asked) else asked
    except AssertionError as error:
        return None, str(error)
    return seen, f"last seen: {seen!r}"


def _complaint(condition: Callable[..., object], what: str, within_s: float, why: str) -> str:
    named = what or getattr(condition, "__name__", "the condition")
    return f"{named}: did not happen within {within_s:g} s ({why})"
