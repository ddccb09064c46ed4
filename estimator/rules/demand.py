"""How many samples a second have to be trained, from what is seen now."""

from __future__ import annotations

from estimator.situation import Situation


def demand_seen_per_s(seen: Situation, *, utilisation: float, catch_up_s: float) -> float:
    """Three terms: traffic at the target utilisation, the backlog, and what a resize's pause will add.

    demand = rate/u + lag/T + pause·rate/T

    u is the target utilisation and T the time in which a backlog must be gone.
    """
    backlog = seen.lag + seen.pause_s * seen.rate_per_s
    return seen.rate_per_s / utilisation + backlog / catch_up_s
