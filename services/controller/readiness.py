"""Whether a controller can do its work, and what keeps it from it."""

from __future__ import annotations

from dataclasses import dataclass

from services.control.errors import PoolUnavailable, StateUnavailable, TrafficUnavailable
from services.control.loop import Tick


@dataclass(frozen=True, slots=True)
class Readiness:
    """`dependencies` maps each to `ok` or to what is wrong with it. A follower is ready."""

    leading: bool
    dependencies: dict[str, str]

    @property
    def ready(self) -> bool:
        """Nothing is in the way."""
        return all(state == "ok" for state in self.dependencies.values())


def blamed(tick: Tick) -> dict[str, str]:
    """Which dependency a tick's trouble came from."""
    if isinstance(tick.error, StateUnavailable):
        return {"redis": str(tick.error)}
    if isinstance(tick.error, TrafficUnavailable):
        return {"kafka": str(tick.error)}
    if isinstance(tick.error, PoolUnavailable):
        return {"pool": str(tick.error)}
    if tick.seen is None:
        return {}
    found = {"kafka": tick.seen.traffic.degraded, "pool": tick.seen.pool.trouble}
    return {part: why for part, why in found.items() if why}
