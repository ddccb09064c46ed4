"""Plays a job's recent traffic again on the simulator, in a process of its own. No I/O but its pipe.

The simulator's day is 86,400 s. A job whose season is another (a demo's day lasts ten minutes) is
stretched to it: times grow, rates shrink, samples and shares stay.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from estimator.rules.tempo import OPTION
from forecasting.forecaster import Forecaster
from services.api.what_if import Answer, Point, Question
from services.simulator.course import course_of
from services.simulator.errors import SimulationError
from services.simulator.figures import figures_of
from services.simulator.forecasters import Remembered, light
from services.simulator.freshness import expected_auc_loss
from services.simulator.layout import M_HELD
from services.simulator.plant import Plant
from services.simulator.policies import KINDS, PolicyChoice, rule_of, told
from services.simulator.run import Course, simulate
from services.simulator.trace import trace_of

DAY_S = 86_400.0
_TICK_S = 10.0
_SEED = 1


def answer(question: Question) -> Answer:
    """One simulation for the job, and one for each point of its curve.

    Raises SimulationError when there is nothing to play.
    """
    started_s = time.perf_counter()
    job, history = question.job, question.history
    stretch = DAY_S / job.forecast.season_s
    starts = [(history.start_s + i * history.step_s) * stretch for i in range(len(history.rates))]
    trace = trace_of("recent traffic", starts, (history.rates / stretch).tolist())
    plant = _plant(question, stretch)
    course = course_of(trace, plant, seed=_SEED)
    own = PolicyChoice("", job.scaling.rule, _stretched(job.scaling.rule_options, stretch))
    turned = own.sweep if question.with_curve and own.kind in KINDS else ()
    forecaster = Remembered(light())
    asked, *curve = (_point(choice, plant, course, forecaster, question) for choice in (own, *turned))
    return Answer(asked, tuple(curve), trace.span_s / stretch / 2, time.perf_counter() - started_s)


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
        workers_max=int(np.ceil(run.minutes[:, M_HELD].max() / 60)),
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


def run(pipe: Connection) -> None:
    """The process: answers questions until the other end is gone."""
    os.nice(5)  # deciding comes first
    while True:
        try:
            question = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            pipe.send(answer(question))
        except (SimulationError, ValueError) as error:
            pipe.send(str(error))
