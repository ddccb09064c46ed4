"""Waiting for what only asking Redis can tell."""

from collections.abc import Awaitable, Callable

from tests.waiting import eventually_async


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Return once `condition` holds. Raises AssertionError at the deadline."""
    happened: bool = await eventually_async(condition, every_s=0.005)
    assert happened
