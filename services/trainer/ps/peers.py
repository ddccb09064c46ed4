"""The other shards of a job, as one of them asks them; and the store's word on whose the slots are."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import numpy as np

from services.trainer.ps.directory import ShardDirectory
from services.trainer.ps.link import ShardAddress, ShardLink
from services.trainer.ps.slots import Heir
from services.trainer.ps.wire import SLOT, Operation, Request

_TIMEOUT_S: Final = 10.0
_NO_KEYS: Final = np.empty(0, np.uint64)


class Peer(Protocol):
    """One process of another shard: what comes back after it in its place is another one."""

    async def ask(self, operation: Operation, slot: int | None = None) -> bytes:
        """The body of its answer. Raises ShardError."""
        ...


class Peers(Protocol):
    """The other shards."""

    async def find(self, shard: int) -> Peer:
        """Its process of now. Raises ShardMissing, StateUnavailable."""
        ...

    async def owner_of(self, slot: int) -> int:
        """The shard that the store names. Raises StateUnavailable."""
        ...


class LinkedPeers:
    """Implements Peers over connections; each question has one of its own."""

    def __init__(self, directory: ShardDirectory, *, shard: int, shards: int, epoch: int = 0) -> None:
        """`shard` is who asks, in its process `epoch`."""
        self._directory = directory
        self._asking = Heir(shard, epoch)
        self._shards = shards

    async def find(self, shard: int) -> Peer:
        return _LinkedPeer(await asyncio.to_thread(self._directory.find, shard), self._asking)

    async def owner_of(self, slot: int) -> int:
        slots = await asyncio.to_thread(self._directory.slots, self._shards)
        return int(slots.shard_of[slot])


class _LinkedPeer:
    def __init__(self, address: ShardAddress, asking: Heir) -> None:
        self._address = address
        self._asking = asking

    async def ask(self, operation: Operation, slot: int | None = None) -> bytes:
        numbers = b"" if slot is None else SLOT.pack(slot, *self._asking)
        return await asyncio.to_thread(self._ask, Request(operation, _NO_KEYS, numbers))

    def _ask(self, request: Request) -> bytes:
        link = ShardLink(self._address, timeout_s=_TIMEOUT_S)
        try:
            return link.ask(request).body
        finally:
            link.close()
