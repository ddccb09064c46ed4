"""What a controller needs of the world around it: stores, and the ports of each job."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from services.control.loop import Ports
from services.control.ports import Leadership, StateStore, WorkerPool
from services.controller.views.forecast import ModelScore, TrainingView
from services.meter.figures import MeterFigures
from services.settings import JobSettings
from services.settings.pool import PoolSettings
from services.store.jobs import JobStore
from services.store.snapshots import SnapshotStore
from services.store.streams import StreamLog
from shuffler.lease import Progress


class Wiring(Protocol):
    """Where a controller gets its adapters from."""

    @property
    def leadership(self) -> Leadership: ...

    @property
    def store(self) -> StateStore: ...

    @property
    def jobs(self) -> JobStore: ...

    @property
    def events(self) -> StreamLog: ...

    @property
    def snapshots(self) -> SnapshotStore: ...

    def store_trouble(self) -> str:
        """Why the store cannot be used, in words; empty when it can."""
        ...

    def open_job(self, name: str, job: JobSettings) -> AbstractAsyncContextManager[Ports]:
        """The ports of one job, closed with the context."""
        ...

    def open_pool(self, name: str, pool: PoolSettings) -> AbstractAsyncContextManager[WorkerPool]:
        """A pool that belongs to no job, closed with the context."""
        ...

    async def progress(self, name: str) -> Progress:
        """Where the job's ledger stands. Raises StateUnavailable."""
        ...

    def scores(self, name: str) -> tuple[ModelScore, ...]:
        """How good each model of the job's forecast has been; none when nobody tells."""
        ...

    def meters(self) -> Mapping[str, MeterFigures]:
        """What the meters of the open jobs say of themselves."""
        ...

    def watched(self) -> Mapping[str, MeterFigures]:
        """What is known of the topics that no job trains."""
        ...

    def take_over(self, name: str, job: JobSettings) -> None:
        """The settings of an open job changed in a way that needs no new ports."""
        ...

    def training(self, name: str) -> TrainingView | None:
        """How training of the job's forecasting models stands; None where nothing is trained."""
        ...

    async def roll_back_models(self, name: str, version: str) -> None:
        """Serve this version of the job's forecasting models no more; nothing where it is not in force."""
        ...

    async def forget(self, name: str) -> None:
        """Delete everything that is kept of a job but its tombstone. Raises StateUnavailable."""
        ...
