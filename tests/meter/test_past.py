"""A past from Prometheus or from a file: rates where there are some, gaps elsewhere, advice when it fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.meter.past import PastUnavailable, past_from_csv, past_from_prometheus
from tests.meter.conftest import Answer, matrix

NOW_S = 1_794_820_030.0
QUERY = "sum(rate(messages_total[1m]))"


def test_each_value_belongs_to_the_minute_that_it_looks_back_on(
    prometheus: Callable[[Answer], str],
) -> None:
    def answer(asked: dict[str, str]) -> tuple[int, Any]:
        assert (asked["query"], float(asked["step"])) == (QUERY, 60.0)
        start, end = float(asked["start"]), float(asked["end"])
        return matrix([(at_s, str(at_s / 60)) for at_s in np.arange(start, end + 1, 60.0)])

    past = past_from_prometheus(prometheus(answer), QUERY, now_s=NOW_S, days=0.5)

    assert past.end_s == NOW_S // 60 * 60
    assert past.known == len(past.rates) == 720
    assert past.rates[-1] == past.end_s / 60


def test_a_long_past_is_asked_for_in_parts_that_prometheus_allows(
    prometheus: Callable[[Answer], str],
) -> None:
    spans: list[float] = []

    def answer(asked: dict[str, str]) -> tuple[int, Any]:
        spans.append((float(asked["end"]) - float(asked["start"])) / 60)
        return matrix([(float(asked["end"]), "5")])

    past = past_from_prometheus(prometheus(answer), QUERY, now_s=NOW_S, days=14)

    assert max(spans) < 11_000
    assert len(past.rates) == 14 * 1440
    assert past.known == len(spans) == 3


def test_missing_and_impossible_values_are_gaps(prometheus: Callable[[Answer], str]) -> None:
    end = NOW_S // 60 * 60
    values = [(end - 240, "1"), (end - 180, "NaN"), (end - 120, "-3"), (end - 60, "+Inf"), (end, "2")]

    past = past_from_prometheus(prometheus(lambda _: matrix(values)), QUERY, now_s=NOW_S, days=0.1)

    assert np.array_equal(past.rates[-5:], [1, np.nan, np.nan, np.nan, 2], equal_nan=True)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (matrix([(NOW_S, "1")], [(NOW_S, "2")]), r"2 series; wrap it in sum"),
        (matrix(), "gave no value in the last"),
        ((400, {"status": "error", "error": "parse error at char 3"}), "400: parse error at char 3"),
        ((200, {"data": {"resultType": "scalar", "result": []}}), "not give series"),
        ((200, {"hello": "world"}), "not that of Prometheus"),
        ((200, b"<html>"), "cannot be read"),
    ],
)
def test_what_is_wrong_is_told(
    prometheus: Callable[[Answer], str], answer: tuple[int, Any], complaint: str
) -> None:
    with pytest.raises(PastUnavailable, match=complaint):
        past_from_prometheus(prometheus(lambda _: answer), QUERY, now_s=NOW_S)


def test_an_unreachable_server_is_named_without_its_password() -> None:
    with pytest.raises(PastUnavailable, match=r"http://127\.0\.0\.1:9 cannot be read") as told:
        past_from_prometheus("http://me:hunter2@127.0.0.1:9", QUERY, now_s=NOW_S)

    assert "hunter2" not in str(told.value)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(PastUnavailable, match="must start with http"):
        past_from_prometheus("file:///etc/passwd", QUERY, now_s=NOW_S)


def test_a_file_is_a_past_with_its_gaps(tmp_path: Path) -> None:
    (tmp_path / "past.csv").write_text("timestamp,rate\n0,1\n60,\n120,3\n180,4\n")

    assert np.array_equal(past_from_csv(tmp_path / "past.csv").rates, [1, np.nan, 3, 4], equal_nan=True)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(PastUnavailable, match=r"nowhere\.csv"):
        past_from_csv(tmp_path / "nowhere.csv")
