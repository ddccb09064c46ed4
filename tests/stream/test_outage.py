"""Outages are told once when they begin and once when they end."""

from __future__ import annotations

from structlog.testing import capture_logs

from services.stream.outage import Outage


class Watch:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_is_told_once_per_change() -> None:
    watch = Watch()
    outage = Outage("redis", now_s=watch)
    with capture_logs() as logs:
        outage.answered()
        for _ in range(5):
            outage.failed("refused")
        watch.now = 12.0
        outage.answered()
        outage.answered()

    assert [(log["event"], log["server"]) for log in logs] == [
        ("server_lost", "redis"),
        ("server_back", "redis"),
    ]
    assert logs[1]["away_s"] == 12.0


def test_waits_grow_to_a_limit_and_start_over_after_an_answer() -> None:
    watch = Watch()
    outage = Outage("redis", first_wait_s=1.0, longest_wait_s=4.0, now_s=watch)

    def wait_after_failing() -> float:
        outage.failed("refused")
        began_s = watch.now
        while not outage.over:
            watch.now += 0.5
        return watch.now - began_s

    assert [wait_after_failing() for _ in range(4)] == [1.0, 2.0, 4.0, 4.0]
    outage.answered()
    assert wait_after_failing() == 1.0
