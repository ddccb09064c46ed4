"""Compiled: second by second, samples arrive, wait in FIFO order in their partition, and are trained."""

from __future__ import annotations

# ruff: noqa: PLR0917 - compiled functions take no keyword-only arguments
import numpy as np
from numpy.typing import NDArray

from services.simulator import layout as at
from services.simulator.compiled import compiled
from services.simulator.membership import events
from services.simulator.trace import Floats


@compiled
def advance(
    until: int,
    arrived: Floats,
    curve: Floats,
    draws: Floats,
    workers: Floats,
    parts: Floats,
    count: Floats,
    const: Floats,
    minutes: Floats,
    delays: Floats,
) -> None:
    """Move the world on to second `until`.

    `arrived[s]` is all that arrived before second s; past its end nothing arrives.
    Past the last minute all is charged to the last row: that is the drain.
    """
    carry = np.zeros(len(workers))
    share = np.zeros(len(workers))
    for second in range(int(count[at.NOW]), until):
        count[at.NOW] = second
        if second >= count[at.NEXT_EVENT]:
            events(workers, parts, count, const, draws)
        here = min(second, len(arrived) - 2)
        end = arrived[-1] if second >= len(arrived) - 1 else arrived[second + 1]
        minute = minutes[min(here // 60 if second == here else len(minutes) - 1, len(minutes) - 1)]
        running = 1.0 - min(max(count[at.PAUSED_UNTIL] - second, 0.0), 1.0)
        blocked = _offer(end, second, running, curve, workers, parts, count, const, carry, share)
        _train(second, end, arrived, parts, count, const, share, minute, delays)
        _credit(curve, workers, len(parts), count, const, carry, share)
        if second == here:
            minute[at.M_ARRIVED] += end - arrived[second]
        _note(second, end, running, blocked, curve, parts, count, const, minute)
    count[at.NOW] = until


@compiled
def _offer(
    end: float,
    second: int,
    running: float,
    curve: Floats,
    workers: Floats,
    parts: Floats,
    count: Floats,
    const: Floats,
    carry: Floats,
    share: Floats,
) -> float:
    """What share of its waiting samples each worker can train in this second; its load goes to `carry`.

    Slot 0 stands for all workers where they share one queue. Returns the share of partitions that wait.
    """
    grouped = const[at.HANDOVER] >= at.COOPERATIVE
    top = int(count[at.TOP])
    carry[: max(top, 1)] = 0.0
    waiting = 0
    for p in range(len(parts)):
        if parts[p, at.BLOCKED_UNTIL] > second + 0.5:
            waiting += 1
        elif not grouped:
            carry[0] += parts[p, at.WEIGHT] * (end - parts[p, at.DONE])
        elif parts[p, at.OWNER] >= 0:
            carry[int(parts[p, at.OWNER])] += parts[p, at.WEIGHT] * (end - parts[p, at.DONE])
    ready = int(count[at.READY_COUNT])
    active = min(ready, len(parts)) if grouped else ready
    most = curve[min(active, len(curve) - 1)]
    if not grouped:
        capacity = most * running * count[at.SPEED_SUM] / max(ready, 1)
        share[0] = min(1.0, capacity / carry[0]) if carry[0] > 0 else 0.0
        return waiting / len(parts)
    for slot in range(top):
        capacity = most * running / max(active, 1) * workers[slot, at.SPEED]
        ok = workers[slot, at.PHASE] == at.READY and carry[slot] > 0
        share[slot] = min(1.0, capacity / carry[slot]) if ok else 0.0
    return waiting / len(parts)


@compiled
def _train(
    second: int,
    end: float,
    arrived: Floats,
    parts: Floats,
    count: Floats,
    const: Floats,
    share: Floats,
    minute: Floats,
    delays: Floats,
) -> None:
    """Train the oldest samples of each partition first, and note how old each was."""
    grouped = const[at.HANDOVER] >= at.COOPERATIVE
    last = len(arrived) - 2
    fresh = 0.0
    for p in range(len(parts)):
        if parts[p, at.BLOCKED_UNTIL] > second + 0.5:
            continue
        owner = int(parts[p, at.OWNER]) if grouped else 0
        part = share[owner] if owner >= 0 else 0.0
        if part <= 0.0:
            continue
        done, head, weight = parts[p, at.DONE], int(parts[p, at.HEAD]), parts[p, at.WEIGHT]
        goal = end if part >= 1.0 else done + (end - done) * part
        if head == second and head < last:  # nothing waits: the usual case, kept short
            fresh += weight * (goal - done)
            parts[p, at.DONE], parts[p, at.HEAD] = goal, head + (goal >= end)
            continue
        while done < goal or (head < min(second, last) and arrived[head + 1] <= done):
            upto = goal if head >= last else min(goal, arrived[head + 1])
            if upto > done:
                _note_delay(second - head, weight * (upto - done), second, count, const, minute, delays)
                done = upto
            if head < last and arrived[head + 1] <= done:
                head += 1
            elif done >= goal:
                break
        parts[p, at.DONE], parts[p, at.HEAD] = goal, head
    if fresh > 0.0:
        _note_delay(0, fresh, second, count, const, minute, delays)


@compiled
def _note_delay(
    delay: int, samples: float, second: int, count: Floats, const: Floats, minute: Floats, delays: Floats
) -> None:
    minute[at.M_TRAINED] += samples
    minute[at.M_DELAY] += samples * delay
    count[at.TRAINED_TOTAL] += samples
    if delay > const[at.SLO]:
        minute[at.M_LATE] += samples
    if second >= count[at.SCORED_FROM]:
        place = delay if delay < at.FINE_BINS else at.FINE_BINS + (delay - at.FINE_BINS) // 60
        delays[min(place, at.DELAY_BINS - 1)] += samples


@compiled
def _credit(
    curve: Floats,
    workers: Floats,
    partitions: int,
    count: Floats,
    const: Floats,
    carry: Floats,
    share: Floats,
) -> None:
    """Tell each ready worker what it trained in this second, and how busy that kept it."""
    grouped = const[at.HANDOVER] >= at.COOPERATIVE
    ready = count[at.READY_COUNT]
    active = min(ready, partitions) if grouped else ready
    if ready == 0:
        return
    most = curve[min(int(active), len(curve) - 1)]
    trained = 0.0
    top = int(count[at.TOP])
    for slot in range(top if grouped else 1):
        trained += carry[slot] * share[slot]
    eased = _eased(curve, trained, active, most) if const[at.BY_LOAD] > 0 else 1.0
    for slot in range(top):
        row = workers[slot]
        if row[at.PHASE] != at.READY:
            continue
        part = row[at.SPEED] / count[at.SPEED_SUM]
        own = carry[slot] * share[slot] if grouped else trained * part
        able = most / active * row[at.SPEED]
        row[at.SEEN_S] += 1.0
        row[at.BUSY_S] += min(1.0, eased * own / able) if able > 0 else 0.0
        row[at.WINDOW] += own
        row[at.TRAINED] += own


@compiled
def _eased(curve: Floats, trained: float, active: float, most: float) -> float:
    """How much less busy workers are than `trained / C(n)`, when only busy ones slow each other down.

    They are busy as m workers would be with C(m) = trained, so the factor is (m/n) / (trained/C(n)).
    """
    if trained <= 0.0 or most <= 0.0:
        return 1.0
    m = 1
    while m < active and curve[m] < trained:
        m += 1
    below = curve[m - 1]
    exact = m - 1 + (trained - below) / (curve[m] - below) if curve[m] > below else float(m)
    return min(1.0, (min(exact, active) / active) / (trained / most))


@compiled
def _note(
    second: int,
    end: float,
    running: float,
    blocked: float,
    curve: Floats,
    parts: Floats,
    count: Floats,
    const: Floats,
    minute: Floats,
) -> None:
    """Add this second to its minute."""
    lag, oldest = 0.0, 0.0
    for p in range(len(parts)):
        left = end - parts[p, at.DONE]
        if left > 1e-9 * end:
            lag += parts[p, at.WEIGHT] * left
            oldest = max(oldest, second - parts[p, at.HEAD])
    ready, held = count[at.READY_COUNT], count[at.HELD_COUNT]
    count[at.LAG], count[at.OLDEST] = lag, oldest
    minute[at.M_LAG_AREA] += lag
    minute[at.M_OVER_SLO] += 1.0 if oldest > const[at.SLO] else 0.0
    minute[at.M_HELD] += held
    minute[at.M_READY] += ready
    minute[at.M_CAPACITY] += curve[min(int(held), len(curve) - 1)]
    minute[at.M_DOWN] += 1.0 - running if ready > 0 else 0.0
    minute[at.M_LOST] += ready * max(1.0 - running, blocked)
    minute[at.M_OLDEST] = max(minute[at.M_OLDEST], oldest)


@compiled
def collect(workers: Floats, slots: NDArray[np.int64], noise: Floats) -> Floats:
    """What workers say: (trained, busy, samples a busy second), noise applied. Starts a new window."""
    said = np.empty((len(slots), 3))
    for i in range(len(slots)):
        row = workers[slots[i]]
        busy_s = row[at.BUSY_S]
        said[i, 0] = row[at.TRAINED]
        said[i, 1] = min(noise[2 * i] * busy_s / max(row[at.SEEN_S], 1.0), 1.0)
        said[i, 2] = noise[2 * i + 1] * row[at.WINDOW] / busy_s if busy_s > 0 else 0.0
        row[at.BUSY_S], row[at.SEEN_S], row[at.WINDOW] = 0.0, 0.0, 0.0
    return said
