"""A named pool of batch workers on the GPUs that nobody needs for now: what is idle is lent to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import floor

import structlog

from services.control.errors import ControlError
from services.control.fleet_share import FleetShare
from services.control.ports import WorkerPool
from services.control.types import PoolResize
from services.settings.fleet import BatchSettings

log = structlog.get_logger(__name__)


class BatchPool:
    """Sized to what the fleet has left over, again and again. Its GPUs are never waited for in vain: what a
    job wishes for is taken back from it first, and a guarantee ahead of need, as loans are."""

    def __init__(
        self, settings: BatchSettings, share: FleetShare, pool: WorkerPool, *, token: Callable[[], int | None]
    ) -> None:
        self.trouble = ""
        """Why it could not be sized, in words; empty when all is well."""
        self.nodes: Mapping[str, int] = {}
        """How many of its workers are on each node, where its pool tells."""
        self._settings = settings
        self._share = share
        self._pool = pool
        self._token = token
        self._passes = 0

    async def tend(self) -> bool:
        """Ask for as many workers as there are GPUs to spare; False where another controller leads."""
        fence = self._token()
        if fence is None:
            return False
        try:
            await self._size(fence)
        except ControlError as error:
            if self.trouble != str(error):
                log.warning("batch_pool_not_sized", why=str(error))
            self.trouble = str(error)
            # Nobody knows what it has: its GPUs stay with it, and no standby leaves for it.
            self._share.lend(self._settings.gpu_type, self._share.batch().get(self._settings.gpu_type, 0.0))
        return True

    async def _size(self, fence: int) -> None:
        about = self._settings
        most = about.workers_max * about.gpus_per_worker if about.standbys else 0.0
        state = await self._pool.observe()
        self.nodes = Counter(worker.node for worker in state.workers if worker.node)
        # Those that drain have their GPUs until they are gone.
        there = max(state.requested, len(state.workers))
        self._share.lend(about.gpu_type, there * about.gpus_per_worker, most=most)
        spare = floor(self._share.idle(about.gpu_type) / about.gpus_per_worker)
        beside = self._share.beside(state, gpus_per_worker=about.gpus_per_worker)
        wanted = min(about.workers_max, spare, about.workers_max if beside is None else beside.workers)
        if wanted != state.requested:
            self._passes += 1
            remove = () if beside is None else beside.leave
            name = f"batch-{self._passes}"
            await self._pool.resize(PoolResize(wanted, name, fence=fence, remove=remove))
            log.info("batch_pool_resized", before=state.requested, workers=wanted)
        self._share.lend(about.gpu_type, max(there, wanted) * about.gpus_per_worker, most=most)
        self.trouble = ""
