"""Many policies on one trace and plant: run them side by side, in parallel where asked."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from forecasting.forecaster import Forecaster
from services.simulator.course import course_of, share_beyond
from services.simulator.figures import Figures, figures_of
from services.simulator.floor import floor_gpu_hours
from services.simulator.forecasters import Remembered, forecaster_named
from services.simulator.oracle import Oracle, OraclePoint, oracle_of, oracle_point, prices_of
from services.simulator.plant import Plant
from services.simulator.policies import PolicyChoice, rule_of, told
from services.simulator.run import Course, Run, simulate
from services.simulator.trace import Trace

Told = Callable[[str], None]
Task = PolicyChoice | float
"""A policy, or the oracle at a price."""
Result = tuple[Figures, Run] | OraclePoint


class Archive(Protocol):
    """Results of one contest that outlive the process: a long comparison can be ended and taken up again."""

    def recall(self, task: Task) -> Result | None:
        """What it came to before; None when it has to be done."""
        ...

    def keep(self, task: Task, result: Result) -> None:
        """For the next time."""
        ...


@dataclass(frozen=True, slots=True)
class Judged:
    """One policy's run and figures, with its ratios to the limits."""

    choice: PolicyChoice
    figures: Figures
    over_floor: float
    over_oracle: float | None
    run: Run = field(repr=False, compare=False)
    forecaster: str = ""
    """Whose forecasts it was given; empty where its rule looks at none."""


@dataclass(frozen=True, slots=True)
class Contest:
    """What is judged: a trace on a plant."""

    trace: Trace
    plant: Plant
    seed: int = 1
    days: float | None = None
    """Score at most this many days after the warm-up."""
    forecaster: str = "light"

    def forecaster_of(self, choice: PolicyChoice) -> str:
        """Whose forecasts a policy is given, should its rule look at them."""
        return choice.forecaster or self.forecaster

    def course(self) -> Course:
        """The traffic, made afresh: it is large, and cheaper to make than to send about."""
        return course_of(self.trace, self.plant, seed=self.seed, days=self.days)


@dataclass(frozen=True, slots=True)
class Verdict:
    """All policies of a contest, side by side."""

    contest: Contest
    course: Course
    floor_gpu_hours: float
    oracle: Oracle | None
    judged: tuple[Judged, ...]

    @property
    def forecasts(self) -> tuple[str, ...]:
        """Whose forecasts the policies were given, in words; those that look at none are left out."""
        names = dict.fromkeys(judged.forecaster for judged in self.judged if judged.forecaster)
        given = {name: [j.choice.label for j in self.judged if j.forecaster == name] for name in names}
        return tuple(f"forecasts by {name}: {', '.join(labels)}" for name, labels in given.items())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures must know of the trace."""
        trace, plant = self.contest.trace, self.contest.plant
        notes = []
        if trace.filled:
            notes.append(f"{trace.filled} missing bins were interpolated")
        if not trace.is_native_minute:
            notes.append(
                f"its own step is {trace.native_step_s:g} s: minutes within a bin are made up by seeded noise"
            )
        beyond = share_beyond(self.course, plant)
        if beyond > 0:
            notes.append(
                f"{beyond:.2%} of the minutes are beyond what {plant.most_workers} workers can train"
            )
        if self.course.scored_from_s + len(self.course.before) * 60 < plant.warmup_days * 86_400 - 60:
            notes.append("the trace is short: the warm-up was cut to half of it")
        return tuple(notes)


def judge(
    contest: Contest,
    choices: Sequence[PolicyChoice],
    *,
    with_oracle: bool = True,
    jobs: int = 1,
    tell: Told = lambda _: None,
    archive: Archive | None = None,
) -> Verdict:
    """Run every policy, and the oracle at each of its prices. `tell` hears of each piece of work done.

    What `archive` recalls is not done again.
    """
    course = contest.course()
    floor = floor_gpu_hours(contest.plant, course.scored)
    # A wrong option fails here, before any work.
    rules = {choice.label: rule_of(choice, contest.plant, course) for choice in choices}
    prices = prices_of(contest.plant) if with_oracle else ()
    tasks: list[PolicyChoice | float] = [*choices, *prices]
    points: list[OraclePoint] = []
    figures: dict[str, tuple[Figures, Run]] = {}
    for task, result in _results(contest, course, tasks, jobs, archive):
        if isinstance(result, OraclePoint):
            points.append(result)
            tell(f"oracle at price {result.price:.2g}")
        elif isinstance(task, PolicyChoice):
            figures[task.label] = result
            tell(task.label)
    oracle = oracle_of(contest.plant, course.scored, points) if points else None
    judged = tuple(
        replace(
            _judged(choice, *figures[choice.label], floor, oracle),
            forecaster=contest.forecaster_of(choice) if rules[choice.label].foresees else "",
        )
        for choice in choices
    )
    return Verdict(contest, course, floor, oracle, judged)


def run_policy(
    contest: Contest, choice: PolicyChoice, course: Course, forecaster: Forecaster
) -> tuple[Figures, Run]:
    """One policy."""
    plant = told(choice, contest.plant)
    rule = rule_of(choice, plant, course)
    run = simulate(rule, plant, course, seed=contest.seed, forecaster=forecaster)
    return figures_of(run, plant, seed=contest.seed), run


def _judged(choice: PolicyChoice, figures: Figures, run: Run, floor: float, oracle: Oracle | None) -> Judged:
    bound = oracle.bound_gpu_hours(figures.late_share) if oracle else 0.0
    over_floor = figures.gpu_hours / floor if floor > 0 else 0.0
    return Judged(choice, figures, over_floor, figures.gpu_hours / bound if bound > 0 else None, run)


def _results(
    contest: Contest, course: Course, tasks: Sequence[Task], jobs: int, archive: Archive | None
) -> Iterator[tuple[Task, Result]]:
    """What is known from before, then the rest as it comes."""
    missing = []
    for task in tasks:
        known = None if archive is None else archive.recall(task)
        if known is None:
            missing.append(task)
        else:
            yield task, known
    for task, result in _work(contest, course, missing, jobs) if missing else ():
        if archive is not None:
            archive.keep(task, result)
        yield task, result


def _work(
    contest: Contest, course: Course, tasks: Iterable[Task], jobs: int
) -> Iterator[tuple[Task, Result]]:
    """The tasks' results as they come."""
    tasks = list(tasks)
    if jobs <= 1 or len(tasks) <= 1:
        _prepare(contest, course)
        for task in tasks:
            yield task, _do(task)
        return
    with _pool(contest, min(jobs, len(tasks))) as pool:
        pending = {pool.submit(_do, task): task for task in tasks}
        for done in as_completed(pending):
            yield pending[done], done.result()


@contextmanager
def _pool(contest: Contest, jobs: int) -> Iterator[ProcessPoolExecutor]:
    # Spawned, not forked: the parent may have threads (a progress bar), and a fork would copy their locks.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare, initargs=(contest,)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_HERE: list[tuple[Contest, Course, dict[str, Forecaster]]] = []
"""The contest of this process: set once, so that a task carries only its own name."""


def _prepare(contest: Contest, course: Course | None = None) -> None:
    _HERE[:] = [(contest, course or contest.course(), {})]


def _do(task: Task) -> Result:
    contest, course, forecasters = _HERE[0]
    if isinstance(task, PolicyChoice):
        name = contest.forecaster_of(task)
        if name not in forecasters:  # one for all policies that ask for it: what it said is remembered
            forecasters[name] = Remembered(forecaster_named(name))
        return run_policy(contest, task, course, forecasters[name])
    return oracle_point(contest.plant, course.scored, task)
