"""What-if on the simulator: a process of its own that answers in time, and is gone when nobody asks."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from collections.abc import Callable

import numpy as np
import psutil
import pytest

from estimator.capacity import Capacity
from forecasting.forecaster import Forecaster
from forecasting.history import TrafficHistory
from services.api import replay
from services.api.simulated import SimulatedWhatIf
from services.api.what_if import Question, WhatIfUnavailable
from services.settings import JobSettings
from services.simulator.forecasters import light
from tests.waiting import eventually_async

DAY_S = 86_400.0


def a_question(*, season_s: float = DAY_S, rule: str = "reactive", fresh_within_s: float = 60.0) -> Question:
    hours = np.arange(48) / 24
    rates = (9000 + 6000 * np.sin(2 * np.pi * hours)) * DAY_S / season_s
    job = JobSettings.model_validate(
        {
            "topic": "clicks",
            "slo": {"fresh_within_s": fresh_within_s},
            "scaling": {"rule": rule, "workers_max": 40, "lead_time_s": 180 * season_s / DAY_S},
            "forecast": {"season_s": season_s},
        }
    )
    history = TrafficHistory(start_s=0.0, step_s=season_s / 24, rates=rates)
    return Question(job, Capacity(1000.0 * DAY_S / season_s), history)


def simulators() -> list[psutil.Process]:
    """Those of this process: others of its children serve other tests."""
    return [child for child in psutil.Process().children() if "services.api.replay" in child.cmdline()]


def test_a_season_is_played_again_and_workers_are_workers_however_long_it_is() -> None:
    long, short = (replay.answer(a_question(season_s=season_s)) for season_s in (7200.0, 600.0))

    for answer in (long, short):
        (point,) = answer.points
        assert 9 < point.workers_mean < 20
        assert point.gpu_hours_per_day == pytest.approx(24 * point.workers_mean)
    assert long.traffic_s == pytest.approx(7200.0, rel=0.05)
    assert short.traffic_s == pytest.approx(600.0, rel=0.05)


def test_no_more_workers_are_told_than_there_may_be_though_a_backlog_is_left_at_the_end() -> None:
    """What is left is worked off after the last minute, which takes longer than a minute."""
    asked = a_question(season_s=600.0, rule="static-mean")
    few = asked.job.scaling.model_copy(update={"workers_max": 5})
    overloaded = dataclasses.replace(asked, job=asked.job.model_copy(update={"scaling": few}))

    (point,) = replay.answer(overloaded).points

    assert point.late_share > 0.5
    assert point.workers_max <= 5


def test_turning_the_knob_trades_lateness_for_gpu_hours() -> None:
    curve = replay.answer(dataclasses.replace(a_question(season_s=600.0), turned=True)).points

    hours = [point.gpu_hours_per_day for point in curve]
    assert len(curve) > 2
    assert hours == sorted(hours, reverse=True), "a higher utilisation must cost less"
    assert all("utilisation=" in point.setting for point in curve)


async def test_an_answer_comes_from_another_process_and_is_remembered() -> None:
    async with SimulatedWhatIf() as what_if:
        first = await what_if.ask(a_question(rule="static-max"))
        (child,) = simulators()
        child.kill()

        assert await what_if.ask(a_question(rule="static-max")) is first, "asked again what was known"


async def test_a_process_that_died_is_told_and_replaced() -> None:
    async with SimulatedWhatIf() as what_if:
        asking = asyncio.create_task(what_if.ask(a_question()))
        await eventually_async(lambda: bool(simulators()), what="the simulator's process")
        os.kill(simulators()[0].pid, signal.SIGKILL)

        with pytest.raises(WhatIfUnavailable, match="ask again"):
            await asking
        assert (await what_if.ask(a_question(rule="static-max"))).points


async def test_whoever_stops_waiting_ends_the_work_and_the_next_gets_their_own_answer() -> None:
    async with SimulatedWhatIf() as what_if:
        await what_if.ask(a_question(rule="static-max"))
        (child,) = simulators()

        def worked_since(spent_s: float) -> Callable[[], bool]:
            return lambda: child.cpu_times().user > spent_s

        for promised_s in (30.0, 31.0):
            abandoned = asyncio.create_task(
                what_if.ask(a_question(rule="penstock", fresh_within_s=promised_s))
            )
            await eventually_async(worked_since(child.cpu_times().user), what="work on it")
            abandoned.cancel()

            answer = await what_if.ask(a_question(rule="static-max", fresh_within_s=promised_s / 4))

            assert answer.points[0].fresh_within_s == promised_s / 4, "the abandoned question was answered"
        assert simulators() == [child], "a process was started anew, which takes seconds"


def test_a_question_is_given_up_once_another_waits() -> None:
    looks = iter([False] * 5)

    with pytest.raises(replay.GivenUp):
        replay.answer(a_question(rule="penstock", season_s=600.0), replay.Player(lambda: next(looks, True)))
    assert next(looks, None) is None, "it was given up before anybody asked again"


def test_forecasts_of_the_same_traffic_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Forecaster] = []

    def counted() -> Forecaster:
        made.append(light())
        return made[-1]

    monkeypatch.setattr(replay, "light", counted)
    player = replay.Player()
    asked, other = a_question(rule="penstock", season_s=600.0), a_question(rule="penstock", season_s=900.0)
    first = replay.answer(asked, player)
    before = len(made)

    assert replay.answer(asked, player).points == first.points
    assert len(made) == before, "the same traffic was forecast anew"
    player.forecaster(other)
    assert len(made) == before + 1


async def test_nothing_is_left_running_when_it_is_closed_in_the_middle_of_an_answer() -> None:
    before = set(psutil.Process().children(recursive=True))
    async with SimulatedWhatIf() as what_if:
        asking = [asyncio.create_task(what_if.ask(a_question(fresh_within_s=s))) for s in (30.0, 90.0)]
        await eventually_async(lambda: bool(simulators()), what="the simulator's process")

    for answer in await asyncio.gather(*asking, return_exceptions=True):
        assert isinstance(answer, WhatIfUnavailable)
    left = set(psutil.Process().children(recursive=True)) - before
    assert not left, "a question that was waiting started another process, or a helper of it stayed"
