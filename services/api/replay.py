"""Plays a job's recent traffic again on the simulator, in a process of its own. No I/O but its pipes.

A question that is overtaken is given up: before each forecast the process looks whether another message
waits.

The simulator's day is 86,400 s. A job whose season is another (a demo's day lasts ten minutes) is
stretched to it: times grow, rates shrink, samples and shares stay.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from estimator.rules.tempo import OPTION
from forecasting.forecast import Forecast
from forecasting.forecaster import Forecaster
from forecasting.history import TrafficHistory
from services.api.what_if import Answer, Point, Question
from services.simulator.course import course_of
from services.simulator.errors import SimulationError
from services.simulator.figures import figures_of
from services.simulator.forecasters import Remembered, light
from services.simulator.freshness import expected_auc_loss
from services.simulator.plant import Plant
from services.simulator.policies import KINDS, PolicyChoice, rule_of, told
from services.simulator.run import Course, simulate
from services.simulator.trace import trace_of

DAY_S = 86_400.0
LENGTH_BYTES = 8
_TICK_S = 30.0
"""Coarser than a backtest's: an operator waits for the answer."""
_SETTLE_S = 2 * 3600.0
"""How long the rule runs before it counts."""
_SEED = 1


class GivenUp(Exception):
    """Another message waits: nobody wants this answer any more."""


@dataclass(slots=True)
class _Attentive:
    """A forecaster that stops its simulation once `overtaken` says so."""

    behind: Forecaster
    overtaken: Callable[[], bool]

    @property
    def name(self) -> str:
        return self.behind.name

    def forecast(self, history: TrafficHistory, *, horizon_s: float) -> Forecast:
        """Raises GivenUp."""
        if self.overtaken():
            raise GivenUp
        return self.behind.forecast(history, horizon_s=horizon_s)


class Player:
    """Answers questions, and remembers the forecasts of the traffic that it was asked about last.

    What is asked and what is in force are played on the same traffic, one after the other, and forecasts are
    a third of the work.
    """

    def __init__(self, overtaken: Callable[[], bool] = lambda: False) -> None:
        self._overtaken = overtaken
        self._traffic = b""
        self._forecaster = Remembered(light())

    def forecaster(self, question: Question) -> Forecaster:
        """The one that has seen this traffic, or a fresh one."""
        history = question.history
        traffic = pickle.dumps(
            (history.start_s, history.step_s, question.job.forecast.season_s, history.rates.tobytes())
        )
        if traffic != self._traffic:
            self._traffic, self._forecaster = traffic, Remembered(light())
        return _Attentive(self._forecaster, self._overtaken)


def answer(question: Question, player: Player | None = None) -> Answer:
    """One simulation for each point. Raises SimulationError when there is nothing to play, GivenUp."""
    started_s = time.perf_counter()
    job, history = question.job, question.history
    stretch = DAY_S / job.forecast.season_s
    starts = [(history.start_s + i * history.step_s) * stretch for i in range(len(history.rates))]
    trace = trace_of("recent traffic", starts, (history.rates / stretch).tolist())
    plant = _plant(question, stretch)
    course = course_of(trace, plant, seed=_SEED, settle_s=_SETTLE_S)
    own = PolicyChoice("", job.scaling.rule, _stretched(job.scaling.rule_options, stretch))
    forecaster = (player or Player()).forecaster(question)
    points = tuple(
        _point(choice, plant, course, forecaster, question)
        for choice in (_knob(own) if question.turned else (own,))
    )
    return Answer(points, len(course.scored.per_second) / stretch, time.perf_counter() - started_s)


def _knob(own: PolicyChoice) -> tuple[PolicyChoice, ...]:
    """Every other setting that a frontier has, the ends included: enough to see the curve's shape."""
    return own.sweep[::2] if own.kind in KINDS else ()


def _stretched(options: Mapping[str, float], stretch: float) -> dict[str, float]:
    times = {name: value * stretch if name.endswith("_s") else value for name, value in options.items()}
    if OPTION in times:  # a rule paced for the faster day
        times[OPTION] /= stretch
    return times


def _point(
    choice: PolicyChoice, plant: Plant, course: Course, forecaster: Forecaster, question: Question
) -> Point:
    """What a policy comes to. GPU-hours are those of 24 hours, whatever the season: workers are workers."""
    plant = told(choice, plant)
    run = simulate(rule_of(choice, plant, course), plant, course, seed=_SEED, forecaster=forecaster)
    figures = figures_of(run, plant, seed=_SEED)
    days = len(course.scored.per_second) / DAY_S
    stretch = DAY_S / question.job.forecast.season_s
    return Point(
        setting=choice.label.partition(":")[2],
        fresh_within_s=question.job.slo.fresh_within_s,
        late_share=figures.late_share,
        gpu_hours_per_day=figures.gpu_hours / days,
        workers_mean=figures.gpu_hours / (24 * days * plant.gpus_per_worker),
        # Not what is held by minute: the last row is the drain, however long that takes.
        workers_max=max(workers for _, workers in run.asked),
        auc_loss=expected_auc_loss(question.job.auc_by_delay_s, run.delays, stretch=stretch),
    )


def _plant(question: Question, stretch: float) -> Plant:
    job, capacity = question.job, question.capacity
    content: dict[str, Any] = {
        "rate_per_worker": capacity.rate_per_worker / stretch,
        "contention": capacity.contention,
        "startup_s": job.scaling.lead_time_s * stretch,
        "pause_s": job.scaling.pause_s * stretch,
        "drain_s": min(job.pool.drain_s, 2.0) * stretch,
        "slo_s": job.slo.fresh_within_s * stretch,
        "late_share_target": job.slo.late_share_target,
        "workers_min": job.scaling.workers_min,
        "workers_max": job.scaling.workers_max,
        "gpus_per_worker": job.scaling.gpus_per_worker,
        "tick_s": max(1, round(_TICK_S if stretch == 1 else min(stretch, 120.0))),
        "warmup_days": 1.0,
    }
    return Plant.model_validate(content)


def framed(message: object) -> bytes:
    """A message for a pipe: its length, then itself."""
    content = pickle.dumps(message)
    return len(content).to_bytes(LENGTH_BYTES) + content


def run(questions: int, answers: int) -> None:
    """Answers questions, each a number and what is asked, until the other end is gone.

    A message that asks nothing ends the work on the one before.
    """
    player = Player(lambda: bool(select.select([questions], [], [], 0)[0]))
    while length := _read(questions, LENGTH_BYTES):
        number, question = pickle.loads(_read(questions, int.from_bytes(length)))  # noqa: S301 - our controller
        if question is None:
            continue
        try:
            said: Answer | str = answer(question, player)
        except GivenUp:
            continue
        except (SimulationError, ValueError) as error:
            said = str(error)
        _write(answers, framed((number, said)))


def _read(pipe: int, wanted: int) -> bytes:
    """So many bytes, or none when the other end is gone; nothing ahead, so that `select` sees the rest."""
    found = b""
    while len(found) < wanted:
        part = os.read(pipe, wanted - len(found))
        if not part:
            return b""
        found += part
    return found


def _write(pipe: int, content: bytes) -> None:
    while content:
        content = content[os.write(pipe, content) :]


def main() -> None:
    """The process. Ctrl-C is for the controller, which then closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(5)  # deciding comes first
    answers = os.dup(1)
    os.dup2(2, 1)  # what a library prints is not an answer
    run(0, answers)


if __name__ == "__main__":
    main()
