"""Waiting names what did not happen."""

from __future__ import annotations

import asyncio

import pytest

from tests.waiting import eventually, eventually_async


def test_the_first_true_value_is_returned() -> None:
    values = iter([None, 0, "", 5, 6])

    assert eventually(lambda: next(values)) == 5


def test_what_did_not_happen_is_named_with_what_was_seen() -> None:
    with pytest.raises(AssertionError, match=r"the pool grew: did not happen within 0.05 s \(last seen: 0\)"):
        eventually(lambda: 0, within_s=0.05, what="the pool grew")


def test_a_failing_assertion_means_not_yet() -> None:
    seen: list[int] = []

    def three_seen() -> bool:
        seen.append(1)
        assert len(seen) == 3, "too few"
        return True

    assert eventually(three_seen)


def test_another_error_is_not_waited_for() -> None:
    with pytest.raises(ZeroDivisionError):
        eventually(lambda: 1 / 0)


async def test_the_event_loop_runs_meanwhile() -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, done.set)

    await eventually_async(done.is_set, what="the event")


async def test_a_coroutine_may_be_the_condition() -> None:
    async def answer() -> int:
        return 42

    assert await eventually_async(answer) == 42


async def test_what_did_not_happen_is_named_there_too() -> None:
    with pytest.raises(AssertionError, match=r"an answer: did not happen within 0.05 s \(last seen: None\)"):
        await eventually_async(lambda: None, within_s=0.05, what="an answer")
