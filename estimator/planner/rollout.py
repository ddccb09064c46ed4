"""Compiled: candidate pool sizes through the queue, over every future."""

from __future__ import annotations

# ruff: noqa: PLR0917 - compiled functions take no keyword-only arguments
import numpy as np
from numpy.typing import NDArray

from estimator.planner.compiled import compiled

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

LATE, OVERDUE, LEFT, BEHIND = range(4)
"""Columns of the outcome: samples late, sample-seconds beyond the SLO, samples waiting at the end, and those
that will be late after it because they wait behind what is late now."""
DRAIN = 0.25
"""A later plan can make the pool larger than the traffic by this share, once it is large enough to drain."""
DOUBLED_MAX = 1024.0
"""Ten doublings: more than any pool is short of."""


@compiled
def roll(
    candidates: Counts,
    rates: Floats,
    chances: Floats,
    curve: Floats,
    arriving_s: Floats,
    ready: int,
    requested: int,
    standbys: int,
    lag: float,
    lag_s: float,
    step_s: float,
    slo_s: float,
    lead_s: float,
    pause_s: float,
) -> Floats:
    """What to expect of each candidate: row i is for a pool of `candidates[i]` asked for now.

    `rates[p, k]` is the rate of future p in step k, `chances[p]` how likely it is. `arriving_s`
    are the seconds until those that start now are ready, in order; `curve[n]` is C(n). The first
    `standbys` that are asked for beyond `requested` train at once.
    """
    found = np.zeros((len(candidates), 4))
    paths, steps = rates.shape
    work = np.empty(steps)
    arrived = np.empty(steps + 1)
    for i in range(len(candidates)):
        woken = min(max(candidates[i] - requested, 0), standbys)
        last = _capacity(
            candidates[i], curve, arriving_s, ready + woken, requested + woken, step_s, lead_s, pause_s, work
        )
        for path in range(paths):
            late, overdue, left, missed = _queue(rates[path], work, lag, lag_s, step_s, slo_s, arrived)
            # What waits at the end and is overdue, or cannot be reached in time, will be late too.
            stuck = max(missed, left - last * slo_s)
            found[i, LATE] += chances[path] * (late + stuck)
            # No more of them than wait now: what only may come, later decisions can still avoid.
            found[i, BEHIND] += chances[path] * _behind(
                min(stuck, lag), last, rates[path, steps - 1], slo_s, lead_s
            )
            found[i, OVERDUE] += chances[path] * overdue
            found[i, LEFT] += chances[path] * left
    return found


@compiled
def _behind(waiting: float, able: float, rate: float, slo_s: float, lead_s: float) -> float:
    """First in, first out: samples that come before `waiting` late ones are drained are late as well.

    A pool that cannot even carry the traffic drains nothing until it can, and a later plan doubles it once
    in a lead time at the most: the nearer it is, the sooner that ends. Without this, all pools that are too
    small look alike where C(n) is not counted on far enough, and the one that is there stays.
    """
    if waiting <= 0.0 or rate <= 0.0:
        return 0.0
    missed = waiting * rate / max(able - rate, DRAIN * rate)
    if able < rate:
        doublings = np.log2(rate / max(able, rate / DOUBLED_MAX))
        missed += min(waiting / slo_s, rate) * lead_s * doublings
    return missed


@compiled
def _capacity(
    chosen: int,
    curve: Floats,
    arriving_s: Floats,
    ready: int,
    requested: int,
    step_s: float,
    lead_s: float,
    pause_s: float,
    work: Floats,
) -> float:
    """Samples that can be trained in each step, into `work`; returns C of the pool at the end.

    A smaller pool calls off the youngest starts first, then lets ready workers go at once.
    A change of those who train stops all of them for `pause_s`.
    """
    steps = len(work)
    surplus = max(requested - chosen, 0)
    starts = max(len(arriving_s) - surplus, 0)
    here = max(ready - max(surplus - len(arriving_s), 0), 0)
    stopped_s = pause_s if here < ready else 0.0
    more = max(chosen - requested, 0)
    coming = 0
    for step in range(steps):
        end_s = (step + 1) * step_s
        able = curve[min(here, len(curve) - 1)]
        samples = able * step_s
        while coming < starts and arriving_s[coming] < end_s:
            joined = curve[min(here + 1, len(curve) - 1)]
            samples += (joined - able) * (end_s - max(arriving_s[coming], step * step_s))
            if coming == 0 or arriving_s[coming] > arriving_s[coming - 1]:
                stopped_s += pause_s
            able, here, coming = joined, here + 1, coming + 1
        if more > 0 and lead_s < end_s:
            joined = curve[min(here + more, len(curve) - 1)]
            samples += (joined - able) * (end_s - lead_s)
            able, here, more = joined, here + more, 0
            stopped_s += pause_s
        idle_s = min(stopped_s, step_s)
        stopped_s -= idle_s
        work[step] = samples * (1 - idle_s / step_s)
    return float(curve[min(here, len(curve) - 1)])


@compiled
def _queue(
    rates: Floats, work: Floats, lag: float, lag_s: float, step_s: float, slo_s: float, arrived: Floats
) -> tuple[float, float, float, float]:
    """First in, first out: (samples late, sample-seconds beyond the SLO, samples left, overdue among them).

    With A the samples arrived and D those trained, counted from now on, what is trained in
    [t, t+dt) and arrived before t+dt-SLO is late:  max(0, min(D(t+dt), A(t+dt-SLO)) - D(t)).
    """
    trained, total = -lag, 0.0
    late, overdue, missed = 0.0, 0.0, 0.0
    back = slo_s / step_s
    arrived[0] = 0.0
    for step in range(len(work)):
        total += rates[step] * step_s
        arrived[step + 1] = total
        before = trained
        trained = min(total, trained + work[step])
        at = step + 1 - back
        if at >= 0.0:
            place = int(at)
            due = arrived[place] + (at - place) * (arrived[min(place + 1, step + 1)] - arrived[place])
        elif -at * step_s < lag_s:
            due = lag * at * step_s / lag_s  # before now: the backlog came at an even rate
        else:
            due = -lag
        late += max(0.0, min(trained, due) - before)
        missed = max(0.0, due - trained)
        overdue += missed * step_s
    return late, overdue, total - trained, missed
