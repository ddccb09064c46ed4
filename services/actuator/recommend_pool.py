"""A pool that never acts: for trust before hand-over."""

from __future__ import annotations

from services.actuator.admission import admit
from services.control.ports import WorkerPool
from services.control.types import PoolCapabilities, PoolResize, PoolState, Victims


class RecommendPool:
    """A `WorkerPool` that carries nothing out.

    A job with this pool runs in `Mode.RECOMMEND`: its decisions tell the size that Penstock would
    choose (`planned`) and carry no resize. `requested` and `ready` stay facts about the platform,
    never about our advice: they are those of the `watched` pool, which somebody else sizes, or
    zero where nothing is watched. If advice counted as requested, the next decision would take it
    for granted, and the record would claim workers that nobody has.

    A resize that is asked for all the same is checked as by any pool, and remembered as `advised`.
    Nothing is opened or closed here: `watched` belongs to whoever made it.
    """

    def __init__(self, watched: WorkerPool | None = None) -> None:
        self._watched = watched
        self._advised: PoolResize | None = None

    @property
    def advised(self) -> PoolResize | None:
        """The last resize that was asked for and not carried out."""
        return self._advised

    async def observe(self) -> PoolState:
        """The watched pool as it is; without one, a pool of which nothing was asked."""
        if self._watched is None:
            return PoolState(requested=0)
        return await self._watched.observe()

    async def resize(self, request: PoolResize) -> None:
        """Remember the advice. Raises Fenced and Rejected, as a pool that acts would."""
        admit(request, pool="recommending pool", newest=0 if self._advised is None else self._advised.fence)
        self._advised = request

    def capabilities(self) -> PoolCapabilities:
        if self._watched is None:
            return PoolCapabilities(hot_join=True, scale_to_zero=True, victims=Victims.NONE)
        return self._watched.capabilities()
