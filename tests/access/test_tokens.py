"""Tokens: shown once, kept as hashes, compared in constant time, good for what they say."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.access.audit import differences
from services.access.rate import RateLimit
from services.access.role import Role
from services.access.token import Token, id_in, matches


def test_a_token_is_kept_as_a_hash_only() -> None:
    token, text = Token.mint(name="ann", role=Role.VIEWER, now_s=0.0)

    assert text not in token.model_dump_json()
    assert text.rsplit("_", 1)[-1] not in token.model_dump_json()
    assert token.sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_a_token_matches_its_own_text_and_nothing_else() -> None:
    token, text = Token.mint(name="ann", role=Role.VIEWER, now_s=0.0)
    _, other = Token.mint(name="bob", role=Role.VIEWER, now_s=0.0)

    assert matches(token, text)
    assert not matches(token, other)
    assert not matches(token, text[:-1])
    assert not matches(None, text)
    assert not matches(None, "")


def test_two_tokens_are_never_the_same() -> None:
    texts = {Token.mint(name="x", role=Role.VIEWER, now_s=0.0)[1] for _ in range(100)}

    assert len(texts) == 100


@given(st.text())
def test_any_text_can_be_asked_for_its_id(text: str) -> None:
    assert id_in(text) is None or text.startswith("pst_")
    assert not matches(None, text)


def test_a_token_expires_at_its_time() -> None:
    token, _ = Token.mint(name="ann", role=Role.VIEWER, now_s=100.0, lifetime_s=50.0)

    assert not token.expired(149.9)
    assert token.expired(150.0)


@pytest.mark.parametrize(("role", "may"), [("viewer", 1), ("operator", 2), ("admin", 3)])
def test_each_role_may_what_the_ones_before_may(role: str, may: int) -> None:
    assert [Role(role).allows(wanted) for wanted in Role] == [True] * may + [False] * (3 - may)


def test_a_caller_waits_when_the_bucket_is_empty_and_others_do_not() -> None:
    limit = RateLimit(per_s=10.0, burst=5)

    assert [limit.wait_s("ann", now_s=0.0) for _ in range(5)] == [0.0] * 5
    assert limit.wait_s("ann", now_s=0.0) == pytest.approx(0.1)
    assert limit.wait_s("bob", now_s=0.0) == 0.0
    assert limit.wait_s("ann", now_s=0.1) == 0.0


def test_a_clock_that_goes_back_gives_nothing_away() -> None:
    limit = RateLimit(per_s=1.0, burst=1)
    limit.wait_s("ann", now_s=100.0)

    assert limit.wait_s("ann", now_s=50.0) > 0


@given(st.lists(st.floats(0, 10), max_size=60), st.floats(0.1, 20), st.integers(1, 10))
def test_never_more_pass_than_the_burst_and_the_rate_allow(
    gaps: list[float], rate: float, burst: int
) -> None:
    limit, now_s, passed = RateLimit(per_s=rate, burst=burst), 0.0, 0
    for gap in gaps:
        now_s += gap
        passed += limit.wait_s("ann", now_s=now_s) == 0.0

    assert passed <= burst + rate * now_s + 1e-6


def test_differences_are_told_by_path_from_what_to_what() -> None:
    found = differences({"a": {"b": 1, "c": [1]}, "x": 1}, {"a": {"b": 2, "c": [1]}, "y": None, "x": 1})

    assert [(change.field, change.before, change.after) for change in found] == [("a.b", 1, 2)]
