"""Compiled: the clairvoyant plan by dynamic programming over (workers, backlog), one minute a step.

State: n workers ready, backlog b on one aggregate FIFO. A step with m workers costs
m·60 GPU-seconds, `start_s` more for each worker above n (its start-up, asked for in time), and
`price` for each sample trained late. Backlogs are rounded *down* to their grid and what overflows it is
forgiven after its price, so the value is never above the true optimum on this grid of minutes.
"""

from __future__ import annotations

# ruff: noqa: PLR0917 - compiled functions take no keyword-only arguments
import numpy as np
from numpy.typing import NDArray

from services.simulator.compiled import compiled
from services.simulator.trace import Floats

STEP_S = 60.0
Plan = NDArray[np.int16]


@compiled
def _positive_share(first: float, last: float) -> float:
    """The share of a stretch where a value going linearly from `first` to `last` is above zero."""
    if first <= 0.0 and last <= 0.0:
        return 0.0
    if first > 0.0 and last > 0.0:
        return 1.0
    return first / (first - last) if first > 0.0 else last / (last - first)


@compiled
def late_in_step(
    b: float, arriving: float, rate: float, pause_s: float, kink_s: float, fresh: Floats
) -> float:
    """Samples trained late in a step that starts with backlog `b` and trains `rate` a second after `pause_s`.

    A sample is late when it is trained while the queue holds more than the last SLO's arrivals. Those
    are `fresh` = (at the start, at `kink_s`, at the end), linear in between: they bend where the SLO's
    far end crosses into the next minute. The queue is linear too, once training goes on; below zero it
    stands for empty.
    """
    inflow = arriving / STEP_S
    late_s = 0.0
    for part in range(2):
        start_s = 0.0 if part == 0 else kink_s
        end_s = kink_s if part == 0 else STEP_S
        from_s = max(start_s, pause_s)
        if end_s <= from_s:
            continue
        slope = (fresh[part + 1] - fresh[part]) / (end_s - start_s)
        first = b + inflow * from_s - rate * (from_s - pause_s) - fresh[part] - slope * (from_s - start_s)
        last = b + inflow * end_s - rate * (end_s - pause_s) - fresh[part + 1]
        late_s += (end_s - from_s) * _positive_share(first, last)
    return rate * late_s


@compiled
def plan_backward(
    arriving: Floats,
    fresh: Floats,
    kink_s: float,
    cell: Floats,
    curve: Floats,
    lowest: int,
    highest: NDArray[np.int64],
    start_s: float,
    pause_s: float,
    price: float,
    actions: Plan,
) -> Floats:
    """Fill `actions[t, k, n]` with the best size of step t from n workers and backlog cell k.

    `fresh[t]` is what had arrived in the SLO before the step's start, its `kink_s` and its end,
    `cell[t]` the width of a backlog cell,
    `highest[t]` the largest size worth trying. Returns the value at the first step, by (k, n).
    """
    steps, cells, sizes = actions.shape
    value, now = np.zeros((cells, sizes)), np.zeros((cells, sizes))
    cheapest = (np.arange(1, sizes) / np.maximum(curve[1:sizes], 1e-9)).min()
    for k in range(cells):
        left = k * cell[steps]
        # The drain, at the best price there is; what is older than the SLO by then is late for certain.
        value[k, :] = left * cheapest + price * max(left - fresh[steps - 1, 2], 0.0)
    stay, move = np.empty((cells, sizes)), np.empty((cells, sizes))
    for t in range(steps - 1, -1, -1):
        top = highest[t]
        for n in range(lowest, top + 1):
            _outcomes(n, curve[n], 0.0, t, arriving[t], fresh[t], kink_s, cell, price, value, stay)
            if pause_s > 0.0:
                pause = min(pause_s, STEP_S)
                _outcomes(n, curve[n], pause, t, arriving[t], fresh[t], kink_s, cell, price, value, move)
        for k in range(cells):
            changed = move[k] if pause_s > 0.0 else stay[k]
            _choose(stay[k], changed, lowest, top, start_s, now[k], actions[t, k])
        value, now = now, value
    return value


@compiled
def _outcomes(
    n: int,
    rate: float,
    pause_s: float,
    t: int,
    arriving: float,
    fresh: Floats,
    kink_s: float,
    cell: Floats,
    price: float,
    value: Floats,
    outcome: Floats,
) -> None:
    """outcome[k, n]: this step with n workers from backlog cell k, and the best after it."""
    cells = len(outcome)
    top, width, per_cell = cells - 1, cell[t + 1], 1.0 / cell[t + 1]
    least = min(fresh[0], fresh[1], fresh[2])
    for k in range(cells):
        b = k * cell[t]
        after = max(b + arriving - rate * (STEP_S - pause_s), 0.0)
        cost = n * STEP_S
        if max(b + arriving * pause_s / STEP_S, after) > least:  # else nothing can be late
            cost += price * late_in_step(b, arriving, rate, pause_s, kink_s, fresh)
        place = int(after * per_cell)
        if place > top:
            cost += price * (after - top * width)
            place = top
        outcome[k, n] = cost + value[place, n]


@compiled
def _choose(
    stay: Floats, move: Floats, lowest: int, top: int, start_s: float, now: Floats, action: Plan
) -> None:
    """now[n] = the least of staying, shrinking for free, and growing at `start_s` a worker."""
    sizes = len(now)
    best, where = np.inf, lowest
    for n in range(lowest, top + 1):
        now[n], action[n] = stay[n], n
        if best < now[n]:
            now[n], action[n] = best, where
        if move[n] < best:
            best, where = move[n], n
    for n in range(top + 1, sizes):  # more than is worth keeping: shrink
        now[n], action[n] = best, where
    best, where = np.inf, top
    for n in range(top, lowest - 1, -1):
        best += start_s
        if best < now[n]:
            now[n], action[n] = best, where
        if move[n] < best:
            best, where = move[n], n
    now[:lowest] = now[lowest]
    action[:lowest] = action[lowest]


@compiled
def follow(
    actions: Plan, arriving: Floats, cell: Floats, curve: Floats, pause_s: float, first: int
) -> NDArray[np.int64]:
    """The plan from no backlog: the best size of every step.

    The backlog is kept exactly and read off two cells higher: the values behind are optimistic by a cell
    a step.
    """
    steps, cells, _ = actions.shape
    sizes = np.empty(steps, dtype=np.int64)
    n, b = first, 0.0
    for t in range(steps):
        place = min(int(np.ceil(b / cell[t])) + 2, cells - 1) if b > 0.0 else 0
        m = int(actions[t, place, n])
        capacity = curve[m] * max(STEP_S - (pause_s if m != n else 0.0), 0.0)
        b = max(b + arriving[t] - capacity, 0.0)
        n = m
        sizes[t] = m
    return sizes
