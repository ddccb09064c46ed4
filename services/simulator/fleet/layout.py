"""Where each fact of a fleet's world lies in the arrays that the compiled loop works on."""

from __future__ import annotations

# GPUs: one row each.
TYPE, PHASE, JOB, UNTIL, SINCE = range(5)
GPU_COLUMNS = 5
# UNTIL: when it trains (starting) or is free (draining), in seconds. SINCE: when its worker was asked for.

# Phases of a GPU.
FREE, STARTING, READY, DRAINING = range(4)

# Jobs: what is true now.
DONE, HEAD_S, CAPACITY, STOPPED_UNTIL, FLOOR, SHORT_S, WINDOW_TRAINED, WINDOW_ABLE = range(8)
JOB_COLUMNS = 8
# DONE: samples trained since the start. HEAD_S: when the oldest untrained sample came. FLOOR: samples/s that
# the job's guarantee must give now. SHORT_S: for how long what it holds has been below that.

# Jobs: sums over the scored part.
TRAINED, LATE, LAG_AREA, HELD_S, BREACH_S, OVER_SLO_S = range(6)
SUM_COLUMNS = 6

# The clock.
NOW, NEXT_EVENT, SCORED_FROM = range(3)
CLOCK_COLUMNS = 3

# Constants of a run.
SLO, GRACE, PAUSE, END = range(4)
CONSTANTS = 4
