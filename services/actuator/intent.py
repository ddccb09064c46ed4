"""What a pool was asked for last, as its platform keeps it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from services.actuator.admission import admit
from services.control.types import PoolResize


@dataclass(frozen=True, slots=True)
class Intent:
    """The size last asked for. Written down before anything is done about it."""

    fence: int = 0
    requested: int = 0
    decision_id: str = ""
    remove: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    """On which the workers should be, where the platform lets one choose."""
    next_worker: int = 1
    """Only ever grows: no worker id is used twice."""

    def after(self, request: PoolResize, *, pool: str) -> Self:
        """The intent once `request` is obeyed. Raises Fenced and Rejected.

        >>> Intent(fence=3, next_worker=9).after(PoolResize(2, "ads-7", fence=4), pool="pool of ads")
        Intent(fence=4, requested=2, decision_id='ads-7', remove=(), nodes=(), next_worker=9)
        """
        admit(request, pool=pool, newest=self.fence)
        return replace(
            self,
            fence=request.fence,
            requested=request.workers,
            decision_id=request.decision_id,
            remove=request.remove,
            nodes=request.nodes,
        )
