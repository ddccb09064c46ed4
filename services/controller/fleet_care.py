"""What a fleet needs done beside its jobs: nodes read, idle GPUs lent, workers told their nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import structlog

from services.control.errors import ControlError
from services.control.fleet_share import FleetShare
from services.control.ports import Leadership, WorkerPool
from services.controller.batch_pool import BatchPool
from services.controller.fleet_desk import FleetDesk
from services.controller.house import House
from services.controller.usher import open_usher
from services.settings import JobSettings
from services.settings.fleet import FleetSettings
from services.settings.pool import PoolSettings

_AGAIN_AFTER_S = 5.0
_LOOKS_EVERY_S = 1.0

log = structlog.get_logger(__name__)


class Surroundings(Protocol):
    """What it needs of the world."""

    @property
    def leadership(self) -> Leadership: ...

    def open_pool(self, name: str, pool: PoolSettings) -> AbstractAsyncContextManager[WorkerPool]: ...


class FleetCare:
    """Each of its tasks runs until it is cancelled, and ends at once where there is nothing to care for."""

    def __init__(
        self,
        settings: FleetSettings,
        desk: FleetDesk,
        jobs: Callable[[], Mapping[str, JobSettings]],
        world: Surroundings,
    ) -> None:
        self._settings = settings
        self._desk = desk
        self._jobs = jobs
        self._world = world

    async def follow_nodes(self) -> None:
        """Read the fleet's nodes from the platform now and then, where they are to be read from it."""
        platform = self._settings.platform
        while platform.kind != "none":
            await self._desk.look(self._jobs())
            await asyncio.sleep(platform.every_s)

    async def tend_batch(self) -> None:
        """Lend what is idle to the batch pool, where one is set. Opened by the leader alone, as jobs are."""
        batch, share = self._settings.batch, self._desk.share
        while batch.gpu_type and share is not None:
            await self._lead_first()
            try:
                async with self._world.open_pool("batch", batch.pool) as pool:
                    lent = BatchPool(batch, share, pool, token=self._world.leadership.token)
                    self._desk.batch = lent
                    while await lent.tend():  # noqa: ASYNC110 - GPUs fall idle by the clock
                        await asyncio.sleep(_LOOKS_EVERY_S)
            except ControlError as error:
                log.warning("batch_pool_not_opened", why=str(error))
                await asyncio.sleep(_AGAIN_AFTER_S)

    async def tend_gates(self) -> None:
        """Choose nodes for the workers that wait for one, where the fleet is a Kubernetes cluster's."""
        platform, share, told = self._settings.platform, self._desk.share, ""
        while platform.kind == "kubernetes" and share is not None:
            await self._lead_first()
            namespaces = self._namespaces()
            try:
                async with open_usher(platform, namespaces, lambda: self._house(share)) as usher:
                    self._desk.usher = usher
                    while self._leads() and self._namespaces() == namespaces:
                        await usher.tend()
            except ControlError as error:
                if str(error) != told:
                    log.warning("placement_not_opened", why=str(error))
                told = str(error)
                await asyncio.sleep(_AGAIN_AFTER_S)
            except Exception:  # a mistake here must neither stop the jobs nor leave their workers waiting
                log.exception("placement_broke", again_in_s=_AGAIN_AFTER_S)
                await asyncio.sleep(_AGAIN_AFTER_S)
            finally:
                self._desk.usher = None

    def _house(self, share: FleetShare) -> House:
        standings = {name: job.standing(name) for name, job in self._jobs().items()}
        return House(share.terms.budget, standings, share.loans())

    def _namespaces(self) -> frozenset[str]:
        """Of the pods of jobs and batch pool; empty is the controller's own."""
        jobs = [job.pool for job in self._jobs().values()]
        pools = [*jobs, *(pool.of_type(kind) for pool in jobs for kind in pool.by_gpu_type)]
        return frozenset({"", *(pool.kubernetes.namespace for pool in [self._settings.batch.pool, *pools])})

    def _leads(self) -> bool:
        return self._world.leadership.token() is not None

    async def _lead_first(self) -> None:
        while not self._leads():  # noqa: ASYNC110 - it is gained and lost by the clock
            await asyncio.sleep(_LOOKS_EVERY_S)
