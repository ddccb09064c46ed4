"""Where each fact of the world lies in the arrays that the compiled loop works on."""

from __future__ import annotations

# Workers: one row a slot.
PHASE, READY_AT, GONE_AT, CRASH_AT, SPEED, BUSY_S, SEEN_S, TRAINED, WINDOW, NUMBER, ASKED_AT, WAITS = range(
    12
)
WORKER_COLUMNS = 12
# WAITS: 1 for one that is to stand by once it is loaded.

# Phases of a slot.
FREE, STARTING, READY, DRAINING, STANDBY = range(5)

# Partitions: one row each. DONE is a position on the aggregate stream: all of the partition's
# samples among the first DONE of the stream are trained. HEAD is the second of its oldest untrained one.
WEIGHT, DONE, HEAD, BLOCKED_UNTIL, OWNER = range(5)
PARTITION_COLUMNS = 5

# The clock and the counters.
(
    NOW,
    PAUSED_UNTIL,
    NEXT_EVENT,
    VERSION,
    READY_COUNT,
    HELD_COUNT,
    SPEED_SUM,
    FAILURES,
    DRAWN,
    SCORED_FROM,
    TRAINED_TOTAL,
    LAG,
    OLDEST,
    NUMBERED,
    MOVED_LAST,
    TOP,
) = range(16)
COUNTERS = 16
# TOP: no slot from here on is in use, so the loops over workers end there.

# Constants of a run.
SLO, PAUSE, HANDOVER, SESSION_TIMEOUT, BY_LOAD = range(5)
CONSTANTS = 5
SHARED, LEASED, COOPERATIVE, EAGER = range(4)
"""How work is handed over: `SHARED` has one queue and, with a pause, stops all of it (restart, or leases
without a pause); `LEASED` blocks moved ranges."""

# Minutes: what happened in each.
(
    M_ARRIVED,
    M_TRAINED,
    M_LATE,
    M_LAG_AREA,
    M_OVER_SLO,
    M_HELD,
    M_READY,
    M_CAPACITY,
    M_DOWN,
    M_LOST,
    M_OLDEST,
    M_DELAY,
) = range(12)
MINUTE_COLUMNS = 12

# Delays: one bin a second for two hours, then one a minute for sixty days.
FINE_BINS = 7200
COARSE_BINS = 60 * 24 * 60
DELAY_BINS = FINE_BINS + COARSE_BINS
