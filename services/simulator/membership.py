"""Compiled: workers come, go and die; what that makes wait."""

from __future__ import annotations

import numpy as np

from services.simulator import layout as at
from services.simulator.compiled import compiled
from services.simulator.trace import Floats

NEVER = 1e18


@compiled
def events(workers: Floats, parts: Floats, count: Floats, const: Floats, draws: Floats) -> None:
    """Everything due by now: starts that end, drains that end, crashes. A crashed worker starts again."""
    now = count[at.NOW]
    changed = False
    for slot in range(len(workers)):
        row = workers[slot]
        phase = row[at.PHASE]
        if phase == at.STARTING and row[at.READY_AT] <= now:
            row[at.PHASE] = at.STANDBY if row[at.WAITS] > 0 else at.READY
            changed = True
        elif phase == at.DRAINING and row[at.GONE_AT] <= now:
            row[at.PHASE] = at.FREE
            count[at.VERSION] += 1
        elif phase in (at.READY, at.STANDBY) and row[at.CRASH_AT] <= now:
            _orphan(parts, slot, now + const[at.SESSION_TIMEOUT])
            start(row, count, draws)
            count[at.FAILURES] += 1
            changed = True
    if changed:
        regroup(workers, parts, count, const)
    recount(workers, count)


@compiled
def start(row: Floats, count: Floats, draws: Floats) -> None:
    """Ask the platform for one worker: its start-up, speed and life are drawn when it is asked for."""
    drawn = int(count[at.DRAWN]) % len(draws)
    count[at.DRAWN] += 1
    count[at.NUMBERED] += 1
    row[:] = 0.0
    row[at.PHASE] = at.STARTING
    row[at.NUMBER] = count[at.NUMBERED]
    row[at.ASKED_AT] = count[at.NOW]
    row[at.READY_AT] = count[at.NOW] + draws[drawn, 0]
    row[at.CRASH_AT] = row[at.READY_AT] + draws[drawn, 1]
    row[at.SPEED] = draws[drawn, 2]


@compiled
def recount(workers: Floats, count: Floats) -> None:
    """Bring the counters in line with the slots."""
    ready, held, top, speed, upcoming = 0, 0, 0, 0.0, NEVER
    for slot in range(len(workers)):
        row = workers[slot]
        phase = row[at.PHASE]
        if phase == at.FREE:
            continue
        held += 1
        top = slot + 1
        if phase == at.READY:
            ready += 1
            speed += row[at.SPEED]
            upcoming = min(upcoming, row[at.CRASH_AT])
        elif phase == at.STANDBY:
            upcoming = min(upcoming, row[at.CRASH_AT])
        elif phase == at.STARTING:
            upcoming = min(upcoming, row[at.READY_AT])
        else:
            upcoming = min(upcoming, row[at.GONE_AT])
    count[at.READY_COUNT], count[at.HELD_COUNT], count[at.SPEED_SUM] = ready, held, speed
    count[at.NEXT_EVENT], count[at.TOP] = upcoming, top


@compiled
def regroup(workers: Floats, parts: Floats, count: Floats, const: Floats) -> None:
    """The set of ready workers changed: hand over, and let wait what has to."""
    count[at.VERSION] += 1
    before = count[at.READY_COUNT]
    recount(workers, count)
    until = count[at.NOW] + const[at.PAUSE]
    handover = const[at.HANDOVER]
    if handover in (at.SHARED, at.EAGER) and const[at.PAUSE] > 0:
        count[at.PAUSED_UNTIL] = max(count[at.PAUSED_UNTIL], until)
    if handover in (at.COOPERATIVE, at.EAGER):
        deal(workers, parts, until if handover == at.COOPERATIVE else 0.0)
    elif handover == at.LEASED:
        after = count[at.READY_COUNT]
        share = abs(after - before) / max(after, before, 1.0)
        _block_some(parts, count, int(np.ceil(share * len(parts))), until)


@compiled
def deal(workers: Floats, parts: Floats, blocked_until: float) -> None:
    """Whole partitions, evenly by number, as few moves as that takes (Kafka's sticky assignor).

    A moved partition waits until `blocked_until`. Workers beyond the partitions get none.
    """
    owned = np.zeros(len(workers))
    ready = 0
    for slot in range(len(workers)):
        ready += workers[slot, at.PHASE] == at.READY
    if ready == 0:
        parts[:, at.OWNER] = -1
        return
    quota, extra = len(parts) // ready, len(parts) % ready
    for p in range(len(parts)):
        owner = int(parts[p, at.OWNER])
        if owner >= 0 and workers[owner, at.PHASE] == at.READY:
            if owned[owner] < quota:
                owned[owner] += 1
                continue
            if owned[owner] == quota and extra > 0:
                owned[owner] += 1
                extra -= 1
                continue
        parts[p, at.OWNER] = -1
    slot = 0
    for p in range(len(parts)):
        if parts[p, at.OWNER] >= 0:
            continue
        slot = _next_with_room(workers, owned, slot, quota, extra)
        if owned[slot] >= quota:
            extra -= 1
        owned[slot] += 1
        parts[p, at.OWNER] = slot
        parts[p, at.BLOCKED_UNTIL] = max(parts[p, at.BLOCKED_UNTIL], blocked_until)


@compiled
def _next_with_room(workers: Floats, owned: Floats, slot: int, quota: int, extra: int) -> int:
    """The first ready slot below its quota; when all have theirs, one that may take an extra."""
    for candidate in range(len(workers)):
        if workers[candidate, at.PHASE] == at.READY and owned[candidate] < quota:
            return candidate
    for candidate in range(len(workers)):
        if workers[candidate, at.PHASE] == at.READY and owned[candidate] == quota and extra > 0:
            return candidate
    return slot


@compiled
def _orphan(parts: Floats, slot: int, until: float) -> None:
    """What a dead worker held waits until its silence is noticed."""
    for p in range(len(parts)):
        if parts[p, at.OWNER] == slot:
            parts[p, at.BLOCKED_UNTIL] = max(parts[p, at.BLOCKED_UNTIL], until)
            parts[p, at.OWNER] = -1


@compiled
def _block_some(parts: Floats, count: Floats, moved: int, until: float) -> None:
    """The next `moved` partitions in turn are the ones whose ranges change hands."""
    for step in range(min(moved, len(parts))):
        p = int(count[at.MOVED_LAST] + step) % len(parts)
        parts[p, at.BLOCKED_UNTIL] = max(parts[p, at.BLOCKED_UNTIL], until)
    count[at.MOVED_LAST] += moved
