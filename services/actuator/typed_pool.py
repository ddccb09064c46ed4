"""A pool for each GPU type, as one: so that a job can move from one type to another."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from services.control.errors import Rejected
from services.control.ports import WorkerPool
from services.control.types import PoolCapabilities, PoolResize, PoolState, Victims


class TypedPool:
    """A `WorkerPool` made of others, one for each GPU type. What they ask and show stays theirs.

    A resize names the type that it is about; the others are emptied when it says so, and not before.
    One that names no type is good for emptying all of them alone.
    """

    def __init__(self, pools: Mapping[str, WorkerPool]) -> None:
        if not pools:
            raise ValueError("a pool by GPU type needs one type at least")
        self._pools = dict(pools)

    async def observe(self) -> PoolState:
        """All workers, each of its pool's type. Raises PoolUnavailable when one of the pools does."""
        seen = await asyncio.gather(*(pool.observe() for pool in self._pools.values()))
        states = dict(zip(self._pools, seen, strict=True))
        return PoolState(
            requested=sum(state.requested for state in states.values()),
            workers=tuple(
                replace(worker, gpu_type=kind) for kind, state in states.items() for worker in state.workers
            ),
            failures=sum(state.failures for state in states.values()),
            trouble="; ".join(f"{kind}: {state.trouble}" for kind, state in states.items() if state.trouble),
            by_type={kind: state.requested for kind, state in states.items()},
            least_by_type={kind: state.least for kind, state in states.items() if state.least},
            most_by_type={
                kind: most for kind, state in states.items() if (most := self._most(kind, state)) is not None
            },
            replacing=any(state.replacing for state in states.values()),
        )

    async def resize(self, request: PoolResize) -> None:
        """Ask the pool of the request's type; then empty the others, where that is due.

        A controller that dies in between finds both there, and asks for the release again.
        """
        if not request.gpu_type and request.workers:
            raise Rejected(f"{request.workers} workers were asked for without a GPU type")
        if request.gpu_type and request.gpu_type not in self._pools:
            raise Rejected(f"there is no pool of GPU type {request.gpu_type!r}")
        if request.gpu_type:
            await self._pools[request.gpu_type].resize(request)
        if request.release or not request.gpu_type:
            for kind, pool in self._pools.items():
                if kind != request.gpu_type:
                    await pool.resize(replace(request, workers=0, nodes=()))

    def capabilities(self) -> PoolCapabilities:
        """What all of them can do. The most that each can have is told with its state: a job is on one."""
        able = [pool.capabilities() for pool in self._pools.values()]
        victims = {one.victims for one in able}
        return PoolCapabilities(
            hot_join=all(one.hot_join for one in able),
            scale_to_zero=all(one.scale_to_zero for one in able),
            victims=victims.pop() if len(victims) == 1 else Victims.NONE,
            standbys=all(one.standbys for one in able),
            places=all(one.places for one in able),
            fractional_gpus=all(one.fractional_gpus for one in able),
        )

    def _most(self, kind: str, state: PoolState) -> int | None:
        """What others let this one grow to, or its kind."""
        bounds = (state.most, self._pools[kind].capabilities().workers_max)
        return min((bound for bound in bounds if bound is not None), default=None)
