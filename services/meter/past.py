"""Past arrival rates from elsewhere: a Prometheus server or a CSV file.

PastUnavailable   the source cannot be read, or holds no rates
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

import numpy as np

from forecasting.history import TrafficHistory
from services.traffic.trace import TraceInvalid, TraceReplay

POINTS_A_QUERY = 10_000
"""Prometheus refuses more than 11,000."""


class PastUnavailable(Exception):
    """There is no past to be had from there. The message says why and what to do."""


Fetch = Callable[[str], Any]
"""The parsed JSON behind a URL. Raises PastUnavailable."""


def past_from_csv(path: Path) -> TrafficHistory:
    """Rates of `timestamp,rate` rows; rows that are missing are gaps. Raises PastUnavailable."""
    try:
        return TraceReplay.read(path).history()
    except TraceInvalid as error:
        raise PastUnavailable(str(error)) from error


def kept_of(past: TrafficHistory, *, now_s: float, keep_s: float) -> TrafficHistory:
    """The part of it that a job remembers by now. Raises PastUnavailable when nothing of that is known."""
    first = max(0, math.ceil((now_s - keep_s - past.start_s) / past.step_s))
    last = max(first, math.floor((now_s - past.start_s) / past.step_s))
    rates = past.rates[first:last]
    if np.isnan(rates).all():
        raise PastUnavailable(
            f"its rates are from {_date(past.start_s)} to {_date(past.end_s)}, and a job remembers the "
            f"{keep_s / 86_400:g} days before now; nothing was written"
        )
    return TrafficHistory(past.start_s + first * past.step_s, past.step_s, rates)


def _date(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(sep=" ", timespec="minutes")


def past_from_prometheus(
    url: str,
    query: str,
    *,
    now_s: float,
    days: float = 7.0,
    step_s: float = 60.0,
    fetch: Fetch | None = None,
) -> TrafficHistory:
    """What `query` gave over the last `days`, which must be one series of samples a second.

    A value that is missing, NaN, infinite or negative is a gap: a counter that
    was reset must not read as traffic. Raises PastUnavailable.
    """
    fetch = fetch or fetch_json
    end = math.floor(now_s / step_s)
    first = end - math.ceil(days * 86_400 / step_s)
    rates = np.full(end - first, np.nan)
    for start in range(first, end, POINTS_A_QUERY):
        stop = min(start + POINTS_A_QUERY, end)
        wanted = {"query": query, "start": (start + 1) * step_s, "end": stop * step_s, "step": step_s}
        answer = fetch(f"{url.rstrip('/')}/api/v1/query_range?{urlencode(wanted)}")
        for at_s, text in _series(answer, query):
            # A rate at t looks back from t: it belongs to the bin that ends there.
            place, value = round(at_s / step_s) - 1 - first, float(text)
            if 0 <= place < len(rates) and math.isfinite(value) and value >= 0:
                rates[place] = value
    if np.isnan(rates).all():
        raise PastUnavailable(
            f"{query!r} gave no value in the last {days:g} days; try it in Prometheus's own page first"
        )
    return TrafficHistory(start_s=first * step_s, step_s=step_s, rates=rates)


def fetch_json(url: str, *, timeout_s: float = 30.0, headers: Mapping[str, str] | None = None) -> Any:
    """The parsed JSON behind an http(s) URL. Raises PastUnavailable, without repeating a password in it."""
    parts = urlsplit(url)
    where = (
        f"{parts.scheme}://{parts.hostname}:{parts.port}"
        if parts.port
        else f"{parts.scheme}://{parts.hostname}"
    )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PastUnavailable("the address of Prometheus must start with http:// or https://")
    try:
        with urlopen(Request(url, headers=dict(headers or {})), timeout=timeout_s) as answer:  # noqa: S310
            return json.load(answer)
    except HTTPError as error:
        raise PastUnavailable(f"{where} answered {error.code}: {_complaint(error)}") from error
    except (URLError, OSError, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise PastUnavailable(f"{where} cannot be read: {reason}") from error


def _complaint(error: HTTPError) -> str:
    """What Prometheus says is wrong with the query, where it says so."""
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return error.reason


def _series(answer: Any, query: str) -> list[tuple[float, str]]:
    try:
        found = answer["data"]["result"]
        if answer["data"]["resultType"] != "matrix":
            raise PastUnavailable(f"{query!r} does not give series over time")
        if len(found) > 1:
            raise PastUnavailable(f"{query!r} gives {len(found)} series; wrap it in sum(...) to get one")
        return [(float(at_s), str(value)) for series in found for at_s, value in series["values"]]
    except (KeyError, TypeError, ValueError) as error:
        raise PastUnavailable("the answer is not that of Prometheus's query_range") from error
