"""What is the same of every pool: it belongs to a job, is opened, used, and closed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Generic, Self, TypeVar

from services.control.errors import PoolUnavailable

Running = TypeVar("Running")


class OpenedPool(ABC, Generic[Running]):
    """A pool that is there between `open` and `close`, or within a context.

    `Running` is what an open pool consists of. Opening twice is a mistake, closing twice is not; whatever
    is asked of a pool that is not open raises PoolUnavailable.
    """

    def __init__(self, job: str) -> None:
        self._job = job
        self._name = f"the pool of job {job}"
        self._running: Running | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Reach the platform, and the workers that are there. Raises PoolUnavailable."""
        if self._running is not None:
            raise RuntimeError(f"{self._name} is already open")
        self._running = await self._begin()

    @abstractmethod
    async def close(self) -> None:
        """Let go of the platform; what becomes of the workers is each pool's own."""

    @abstractmethod
    async def _begin(self) -> Running:
        """What `open` opens; nothing is left behind when it raises."""

    def _end(self) -> Running | None:
        """What is to be closed; from now on the pool is not open."""
        running, self._running = self._running, None
        return running

    def _open(self) -> Running:
        """What runs. Raises PoolUnavailable when nothing does."""
        if self._running is None:
            raise PoolUnavailable(f"{self._name} is not open")
        return self._running
