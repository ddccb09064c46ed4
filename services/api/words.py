"""Why a pool has the size it has, in sentences for people. One for each reason."""

from __future__ import annotations

from services.control.types import Reason

WORDS: dict[Reason, str] = {
    Reason.STEADY: "The pool is right as it is.",
    Reason.FORECAST_RISE: "More traffic is forecast than the pool can train.",
    Reason.FORECAST_FALL: "Less traffic is forecast than the pool is for.",
    Reason.TRAFFIC_RISE: "More traffic is here than the pool can train.",
    Reason.TRAFFIC_FALL: "Less traffic is here than the pool is for.",
    Reason.CATCH_UP: "A backlog has to be trained within the freshness promised.",
    Reason.SETTLING: "A smaller pool would do; it is kept until that has held for a while.",
    Reason.COLD_START: "Nothing is known yet: the start is from the settings.",
    Reason.AT_MINIMUM: "The least number of workers allowed binds.",
    Reason.AT_MAXIMUM: "The greatest number of workers allowed binds: part of the traffic will be late.",
    Reason.AT_PARTITIONS: "Without leases, a worker beyond the partitions would idle.",
    Reason.AT_STALENESS: "With more workers the model would learn from parameters that are too old.",
    Reason.AT_PLATFORM: "A bound of the platform's own binds, such as a disruption budget.",
    Reason.AT_STEP: "A step limit binds: the rest follows with the next plans.",
    Reason.BREAKER_OPEN: "Resizes failed or did not help, several in a row: the pool is held for a while.",
    Reason.RESIZE_BUDGET: "The pool was resized as often as it may be in a day.",
    Reason.RESIZE_RATE: "The pool was resized as often as it may be in an hour.",
    Reason.FLEET_RESIZE_RATE: "All pools together were resized as often as they may be in an hour.",
    Reason.FLEET_SHARE: "The jobs together want more GPUs than the fleet has: this is the job's share.",
    Reason.FLEET_MOVE: "The fleet has more for the job on another type of GPU: it moves there.",
    Reason.AT_REACH: "No pool near this size has been seen yet: it grows step by step.",
    Reason.NO_GAIN: "The workers added last trained next to nothing more: something else binds.",
    Reason.STALE_METER: "Traffic could not be measured: the last plan is held.",
    Reason.DEGRADED_METER: "Part of the traffic could not be measured: the last good values stand in for it.",
    Reason.NO_FORECAST: "No model had enough history: sized from what is seen.",
    Reason.BAD_FORECAST: "The forecast has been far off lately: sized from what is seen meanwhile.",
    Reason.SLO_BELOW_LEAD_TIME: "A worker takes longer to start than a sample may wait: "
    "only what is forecast can be on time.",
    Reason.FALLBACK_FORECAST: "The first forecasting model could not speak; a simpler one did.",
    Reason.WORKERS_LOST: "Workers died or cannot start; the pool replaces them.",
    Reason.RECOMMEND_ONLY: "The job only recommends: the plan is recorded, not carried out.",
    Reason.FIXED: "A rule that does not look at traffic said so.",
    Reason.PAUSED: "An operator paused the job: the pool is left as it is.",
    Reason.OVERRIDE: "An operator set the size, until a time.",
}

CONSTRAINTS: dict[Reason, str] = {
    Reason.AT_MINIMUM: "workers_min",
    Reason.AT_MAXIMUM: "workers_max",
    Reason.AT_PARTITIONS: "partitions",
    Reason.AT_STALENESS: "staleness",
    Reason.AT_PLATFORM: "the platform's own bounds",
    Reason.AT_STEP: "step limit",
    Reason.BREAKER_OPEN: "circuit breaker",
    Reason.RESIZE_BUDGET: "daily resize budget",
    Reason.RESIZE_RATE: "resize rate",
    Reason.FLEET_RESIZE_RATE: "the fleet's resize rate",
    Reason.FLEET_SHARE: "the fleet's GPUs",
    Reason.FLEET_MOVE: "the fleet's GPUs",
    Reason.AT_REACH: "sizes seen",
    Reason.NO_GAIN: "bottleneck",
    Reason.PAUSED: "pause",
    Reason.OVERRIDE: "override",
    Reason.STALE_METER: "stale traffic",
}


def words_for(reason: Reason) -> str:
    """The sentence; a reason newer than this list speaks for itself."""
    return WORDS.get(reason, reason.value.replace("_", " ") + ".")


def binding(reason: Reason, notes: tuple[Reason, ...]) -> str:
    """Which constraint decided, rather than the demand; empty when none did."""
    for said in (reason, *notes):
        if said in CONSTRAINTS:
            return CONSTRAINTS[said]
    return ""
