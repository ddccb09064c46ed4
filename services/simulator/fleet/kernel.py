"""Compiled: second by second, every job of a fleet trains the oldest of what waits.

One first-in-first-out queue a job, not one a partition: with leases whoever is free takes what is most
behind, so a job's workers share its stream, and a hundred jobs cost no more than a hundred sums a second.
"""

from __future__ import annotations

# ruff: noqa: PLR0917 - compiled functions take no keyword-only arguments
import numpy as np
from numpy.typing import NDArray

from services.simulator.compiled import compiled
from services.simulator.fleet import layout as at
from services.simulator.trace import Floats

Counts = NDArray[np.int64]

MINUTE_S = 60
NEVER = 1 << 60


@compiled
def advance(
    until: int,
    arrived: Floats,
    rates: Floats,
    contention: Floats,
    gpus: Counts,
    jobs: Floats,
    sums: Floats,
    held_minutes: Floats,
    clock: Counts,
    const: Floats,
) -> None:
    """Move the world on to second `until`, or to the first second in which a GPU becomes free.

    `arrived[j, m]` is all that came to job j before minute m; within a minute it comes evenly, and after
    the last nothing comes. Who asks decides what is started on a GPU that becomes free, so time stops there.
    """
    second = clock[at.NOW]
    while second < until:
        if second >= clock[at.NEXT_EVENT] and events(second, gpus, rates, contention, jobs, clock, const):
            break
        scored = second >= clock[at.SCORED_FROM]
        for job in range(len(jobs)):
            _train(job, second, scored, arrived, jobs, sums, const)
        if scored:
            _charge(second, gpus, jobs, sums, held_minutes, rates, contention, const)
        second += 1
    clock[at.NOW] = second


@compiled
def events(
    second: int, gpus: Counts, rates: Floats, contention: Floats, jobs: Floats, clock: Counts, const: Floats
) -> bool:
    """Workers that are ready now, and GPUs that are free now; whether any is."""
    freed = False
    following = NEVER
    for row in gpus:
        if row[at.PHASE] in (at.STARTING, at.DRAINING):
            if row[at.UNTIL] > second:
                following = min(following, row[at.UNTIL])
            elif row[at.PHASE] == at.STARTING:
                row[at.PHASE] = at.READY
                _paused(row[at.JOB], second, jobs, const)
            else:
                row[at.PHASE], freed = at.FREE, True
    clock[at.NEXT_EVENT] = following
    recount(gpus, rates, contention, jobs)
    return freed


@compiled
def _paused(job: int, second: int, jobs: Floats, const: Floats) -> None:
    jobs[job, at.STOPPED_UNTIL] = max(jobs[job, at.STOPPED_UNTIL], second + const[at.PAUSE])


@compiled
def recount(gpus: Counts, rates: Floats, contention: Floats, jobs: Floats) -> None:
    """What the ready workers of each job can train."""
    jobs[:, at.CAPACITY] = able(gpus, rates, contention, at.READY)


@compiled
def able(gpus: Counts, rates: Floats, contention: Floats, least: int) -> Floats:
    """Samples/s of each job's workers that are ready, or with `least` STARTING of those that start too.

    Types may be mixed: C = Σ rate(type) / (1 + contention · (workers - 1)).
    """
    speed = np.zeros(len(rates))
    workers = np.zeros(len(rates))
    for row in gpus:
        if least <= row[at.PHASE] <= at.READY:
            speed[row[at.JOB]] += rates[row[at.JOB], row[at.TYPE]]
            workers[row[at.JOB]] += 1.0
    return speed / (1.0 + contention * np.maximum(workers - 1.0, 0.0))


@compiled
def came(arrived: Floats, job: int, at_s: float) -> float:
    """Samples of a job that came before second `at_s`."""
    last = arrived.shape[1] - 1
    if at_s <= 0.0:
        return 0.0
    minute = int(at_s // MINUTE_S)
    if minute >= last:
        return float(arrived[job, last])
    part = (at_s - minute * MINUTE_S) / MINUTE_S
    return float(arrived[job, minute] + part * (arrived[job, minute + 1] - arrived[job, minute]))


@compiled
def _train(
    job: int, second: int, scored: bool, arrived: Floats, jobs: Floats, sums: Floats, const: Floats
) -> None:
    """Train the oldest samples first.

    What is trained in [s, s+1) and came in a whole second more than the SLO before s is late:
    max(0, min(D(s+1), A(s-SLO)) - D(s)).
    """
    row = jobs[job]
    total, before = came(arrived, job, second + 1.0), row[at.DONE]
    running = 1.0 - min(max(row[at.STOPPED_UNTIL] - second, 0.0), 1.0)
    capacity = row[at.CAPACITY] * running
    done = min(total, before + capacity)
    row[at.DONE] = done
    row[at.WINDOW_TRAINED] += done - before
    row[at.WINDOW_ABLE] += row[at.CAPACITY]
    lag = total - done
    if lag <= 1e-9 * total:
        row[at.HEAD_S], lag = second + 1.0, 0.0
    else:
        _find_head(job, done, arrived, row)
    if not scored:
        return
    total_row = sums[job]
    total_row[at.TRAINED] += done - before
    total_row[at.LATE] += max(0.0, min(done, came(arrived, job, second - const[at.SLO])) - before)
    total_row[at.LAG_AREA] += lag
    if second < const[at.END] and second - row[at.HEAD_S] > const[at.SLO]:
        total_row[at.OVER_SLO_S] += 1.0


@compiled
def _find_head(job: int, done: float, arrived: Floats, row: Floats) -> None:
    """Move the second of the oldest untrained sample on."""
    last = arrived.shape[1] - 1
    minute = min(int(row[at.HEAD_S] // MINUTE_S), last - 1)
    while minute < last - 1 and arrived[job, minute + 1] <= done:
        minute += 1
    width = arrived[job, minute + 1] - arrived[job, minute]
    into = (done - arrived[job, minute]) / width if width > 0.0 else 0.0
    row[at.HEAD_S] = max(row[at.HEAD_S], MINUTE_S * (minute + min(max(into, 0.0), 1.0)))


@compiled
def _charge(
    second: int,
    gpus: Counts,
    jobs: Floats,
    sums: Floats,
    held_minutes: Floats,
    rates: Floats,
    contention: Floats,
    const: Floats,
) -> None:
    """GPUs held, and guarantees that were not kept for longer than it takes to make room."""
    minute = held_minutes[min(second // MINUTE_S, len(held_minutes) - 1)]
    for row in gpus:
        if row[at.PHASE] != at.FREE:
            sums[row[at.JOB], at.HELD_S] += 1.0
            minute[row[at.TYPE]] += 1.0
    holds = able(gpus, rates, contention, at.STARTING)
    for job in range(len(jobs)):
        if holds[job] < jobs[job, at.FLOOR] * (1 - 1e-9):
            jobs[job, at.SHORT_S] += 1.0
            sums[job, at.BREACH_S] += 1.0 if jobs[job, at.SHORT_S] > const[at.GRACE] else 0.0
        else:
            jobs[job, at.SHORT_S] = 0.0
