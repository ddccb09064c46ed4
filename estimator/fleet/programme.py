"""The integer programme over GPU types: one configuration a job, within what there is, worth the most.

There are few types and many jobs, so the linear relaxation splits hardly any job: as many at most as
there are types. It is solved first, and tells how good any whole solution can be. Then the jobs that it
split, and those that nearly were, are chosen anew in whole numbers with all others as they are. That is
near enough nearly always; where it is not, the whole programme is solved in whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy  # its parts are loaded when first used: most processes never solve, and start the sooner
from numpy.typing import NDArray

from estimator.fleet.configurations import Choice
from estimator.fleet.wish import ShareRules

CORE_JOBS = 40
"""Jobs chosen anew after the relaxation: those whose choice was least clear."""
LIMIT_REACHED = 1

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Solution:
    """Which choice each job gets, and how far from the best that may be."""

    picked: tuple[int, ...]
    gap: float
    in_time: bool = True


class Unsolved(Exception):
    """No solution was found; the message says why."""


Solver = Callable[[Sequence[Sequence[Choice]], Mapping[str, int], ShareRules], Solution]


def solved(jobs: Sequence[Sequence[Choice]], there: Mapping[str, int], rules: ShareRules) -> Solution:
    """The best found in the time there is. `Unsolved` where that is nothing, or breaks a limit."""
    if any(not choices for choices in jobs):
        raise Unsolved("a job has nothing to choose from")
    problem = _Problem.of(jobs, there)
    relaxed = problem.relaxed(rules)
    solution = problem.in_core(relaxed, rules)
    if solution is None or solution.gap > rules.gap:
        whole = problem.whole(relaxed, rules)
        if solution is None or whole.gap < solution.gap:
            solution = whole
        else:  # with more time the whole programme might have been better
            solution = replace(solution, in_time=whole.in_time)
    _check(solution.picked, jobs, there)
    return solution


@dataclass(frozen=True, slots=True)
class _Relaxed:
    x: Array
    value: float
    """No whole solution is worth more."""
    margins: Array
    """By choice, what is lost by taking it in the place of its job's best, at the prices of the GPUs."""


@dataclass(frozen=True, slots=True)
class _Problem:
    values: Array
    starts: Indices
    """Where each job's choices begin, and the end."""
    one_each: Any
    used: Any
    """GPUs of each type, by choice."""
    there: Array

    @classmethod
    def of(cls, jobs: Sequence[Sequence[Choice]], there: Mapping[str, int]) -> _Problem:
        sizes = [len(choices) for choices in jobs]
        owners = np.repeat(np.arange(len(jobs)), sizes)
        flat = [choice for choices in jobs for choice in choices]
        rows = {kind: row for row, kind in enumerate(there)}
        used = [(rows[choice.at.gpu_type], column) for column, choice in enumerate(flat) if choice.at]
        gpus = [choice.gpus for choice in flat if choice.at]
        return cls(
            np.array([choice.value for choice in flat]),
            np.cumsum([0, *sizes]),
            scipy.sparse.csr_array(
                (np.ones(len(flat)), (owners, np.arange(len(flat)))), shape=(len(jobs), len(flat))
            ),
            scipy.sparse.csr_array(
                (gpus, ([row for row, _ in used], [at for _, at in used])), shape=(len(there), len(flat))
            ),
            np.array(list(there.values()), dtype=float),
        )

    def relaxed(self, rules: ShareRules) -> _Relaxed:
        """Jobs split over several choices where that is worth more."""
        result = scipy.optimize.linprog(
            -self.values,
            A_ub=self.used,
            b_ub=self.there,
            A_eq=self.one_each,
            b_eq=np.ones(len(self.starts) - 1),
            bounds=(0, None),
            method="highs",
            options={"time_limit": rules.time_limit_s},
        )
        if result.x is None:
            raise Unsolved(f"the solver found nothing: {result.message}")
        at_prices = self.values + self.used.T @ result.ineqlin.marginals
        best = np.maximum.reduceat(at_prices, self.starts[:-1])
        margins = np.repeat(best, np.diff(self.starts)) - at_prices
        return _Relaxed(np.asarray(result.x), -float(result.fun), margins)

    def in_core(self, relaxed: _Relaxed, rules: ShareRules) -> Solution | None:
        """The relaxation's choices, with the least clear ones made anew. None where that does not fit."""
        picked = self.picked(relaxed.x)
        clear = np.array([self._clearness(relaxed, job) for job in range(len(picked))])
        core = np.argsort(clear, kind="stable")[:CORE_JOBS]
        fixed = np.setdiff1d(np.arange(len(picked)), core)
        x = np.zeros(len(self.values))
        x[[self.starts[job] + picked[job] for job in fixed]] = 1.0
        columns = np.concatenate([np.arange(self.starts[job], self.starts[job + 1]) for job in core]).astype(
            int
        )
        result = self._in_whole_numbers(columns, core, self.there - self.used @ x, rules)
        if result.x is None:
            return None
        x[columns] = result.x
        return self._solution(x, relaxed, in_time=True)

    def whole(self, relaxed: _Relaxed, rules: ShareRules) -> Solution:
        """The whole programme in whole numbers."""
        jobs = np.arange(len(self.starts) - 1)
        result = self._in_whole_numbers(np.arange(len(self.values)), jobs, self.there, rules)
        if result.x is None:
            raise Unsolved(f"the solver found nothing: {result.message}")
        return self._solution(np.asarray(result.x), relaxed, in_time=result.status != LIMIT_REACHED)

    def _in_whole_numbers(self, columns: Indices, jobs: Indices, room: Array, rules: ShareRules) -> Any:
        return scipy.optimize.milp(
            -self.values[columns],
            integrality=np.ones(len(columns)),
            bounds=scipy.optimize.Bounds(0, 1),
            constraints=[
                scipy.optimize.LinearConstraint(self.one_each[jobs][:, columns], 1, 1),
                scipy.optimize.LinearConstraint(self.used[:, columns], -np.inf, room),
            ],
            options={"time_limit": rules.time_limit_s, "mip_rel_gap": rules.gap / 2},
        )

    def _clearness(self, relaxed: _Relaxed, job: int) -> float:
        """What the second best choice would lose; nothing for a job that is split."""
        span = slice(self.starts[job], self.starts[job + 1])
        if relaxed.x[span].max() < 1 - 1e-6:
            return -1.0
        return float(np.partition(relaxed.margins[span], 1)[1]) if span.stop - span.start > 1 else np.inf

    def picked(self, x: Array) -> tuple[int, ...]:
        """The choice with the largest part of each job."""
        return tuple(int(np.argmax(x[start:end])) for start, end in pairwise(self.starts))

    def _solution(self, x: Array, relaxed: _Relaxed, *, in_time: bool) -> Solution:
        picked = self.picked(x)
        worth = float(sum(self.values[start + at] for start, at in zip(self.starts, picked, strict=False)))
        return Solution(picked, max(0.0, (relaxed.value - worth) / max(abs(relaxed.value), 1e-9)), in_time)


def _check(picked: Sequence[int], jobs: Sequence[Sequence[Choice]], there: Mapping[str, int]) -> None:
    """A solver works with tolerances; GPUs do not."""
    used = dict.fromkeys(there, 0.0)
    for index, choices in zip(picked, jobs, strict=True):
        if choices[index].at:
            used[choices[index].at.gpu_type] += choices[index].gpus
    for kind, gpus in used.items():
        if gpus > there[kind]:
            raise Unsolved(f"the solver gave {gpus:g} GPUs of {kind}, and there are {there[kind]}")
