"""What every pool checks before it obeys."""

from __future__ import annotations

from services.control.errors import Fenced, Rejected
from services.control.types import PoolResize


def admit(request: PoolResize, *, pool: str, newest: int) -> None:
    """Let the request pass, or say why not. `newest` is the highest fence that the pool has seen.

    Raises Fenced for a controller that was superseded, Rejected for a size that cannot be.
    An equal fence passes: it is the same leader asking again.

    >>> admit(PoolResize(3, decision_id="ads-1", fence=6), pool="pool of ads", newest=7)
    Traceback (most recent call last):
    ...
    services.control.errors.Fenced: pool of ads: token 6 was superseded by 7; another controller leads
    """
    if request.fence < newest:
        raise Fenced(pool, token=request.fence, newest=newest)
    if request.workers < 0:
        raise Rejected(f"{pool}: {request.workers} workers were asked for; the fewest is 0")
