"""A run-up sets the pool by hand, ends in the rule's hands, and its figures do not count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from services.control.errors import StateUnavailable
from services.controller.controller import Controller
from services.demo.report import DemoReport
from services.demo.run_up import RunUp
from services.demo.scenario import JOB, WORKERS_MAX, Scenario
from services.demo.tally import Tally
from services.demo.traffic_process import TrafficProcess
from shuffler.lease import Progress

SCENARIO = Scenario(run_up_s=40.0)


class Stage:
    """A controller that runs its job after two seconds, traffic, and a watch whose seconds pass at once."""

    def __init__(self, *, stopped_after_s: float = float("inf")) -> None:
        self.elapsed_s = 0.0
        self.stop = asyncio.Event()
        self.away = 0
        """How many questions the store does not answer."""
        self.asked: list[tuple[float, int | None]] = []
        self._stopped_after_s = stopped_after_s
        self.desk = SimpleNamespace(override=self._override, end_override=self._end_override)

    def status(self, job: str) -> object | None:
        return object() if job == JOB and self.elapsed_s >= 2.0 else None

    async def _override(self, job: str, workers: int, *_: Any, **__: Any) -> None:
        assert self.status(job)
        self._ask()
        self.asked.append((self.elapsed_s, workers))

    async def _end_override(self, *_: Any) -> None:
        self._ask()
        self.asked.append((self.elapsed_s, None))

    async def watch(self, *, until: Callable[[], bool]) -> None:
        while not until():
            self.elapsed_s += 1.0
            if self.elapsed_s >= self._stopped_after_s:
                self.stop.set()

    async def play(self) -> None:
        controller, traffic = cast(Controller, self), cast(TrafficProcess, self)
        await RunUp(SCENARIO, controller, traffic, self.watch, self.stop).play(self._progress)

    async def _progress(self) -> Progress:
        self._ask()
        return Progress({}, {}, trained=0, late=0, repeated=0, lost=0, epoch=1)

    def _ask(self) -> None:
        self.away -= 1
        if self.away >= 0:
            raise StateUnavailable("Redis is being replaced")


async def test_all_workers_run_first_then_as_many_as_are_needed_then_the_rule_decides() -> None:
    stage = Stage()
    await stage.play()

    assert stage.asked == [(2.0, WORKERS_MAX), (30.0, SCENARIO.workers_at_start), (40.0, None)]


async def test_a_store_that_is_away_for_a_while_delays_it_and_no_more() -> None:
    stage = Stage()
    stage.away = 3
    await stage.play()

    assert stage.asked == [(5.0, WORKERS_MAX), (30.0, SCENARIO.workers_at_start), (40.0, None)]


async def test_a_store_that_stays_away_does_not_keep_it_from_being_stopped() -> None:
    stage = Stage(stopped_after_s=7.0)
    stage.away = 1000

    with pytest.raises(StateUnavailable):
        await stage.play()


async def test_who_stops_it_need_not_wait_for_its_end() -> None:
    stage = Stage(stopped_after_s=5.0)
    await stage.play()

    assert stage.elapsed_s == 5.0


def test_shares_are_of_what_was_trained_afterwards_and_counts_of_everything() -> None:
    before = Progress({}, {}, trained=600, late=500, repeated=0, lost=0, epoch=1)
    after = replace(before, trained=1000, late=520)
    tally = Tally(gpus_per_worker=1.0, rate_per_worker=1.0, worker_s=800.0)

    report = DemoReport.of(tally, after, produced=1000, orphans=0, minutes=1.0, seed=1, before=before)

    assert (report.produced, report.trained) == (1000, 1000)
    assert report.late_share == pytest.approx(20 / 400)
    assert report.gpu_utilisation == pytest.approx(400 / 800)
