"""A shard takes over slots of a busier one, while training goes on.

1. The ledger's watermark is read, then the slot's rows are copied, then a snapshot of both is kept:
   should this shard die later, all that its rows miss is trained again.
2. The slot is frozen at the other shard, and its rows are copied once more: what was acknowledged there
   is in them. Whoever asks for the slot now is turned away and tries again.
3. The other shard is told that they are here. It writes so in the store, forgets them, and answers.

Until that answer the slot is the other shard's. When it is not heard, it is asked for again: the other
shard gives the slot away, or refuses, and then the store tells whether it has. So no update is lost and none
has two homes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Final

import numpy as np
import structlog

from services.control.errors import StateUnavailable
from services.trainer.ps.desk import ShardDesk
from services.trainer.ps.errors import ShardError, ShardRefused
from services.trainer.ps.peers import Peer, Peers
from services.trainer.ps.relief import Asked, Relief, relief
from services.trainer.ps.table import TableRows
from services.trainer.ps.wire import Operation

_log = structlog.get_logger(__name__)

_AGAIN_S: Final = 0.2

Keep = Callable[[Callable[[], Awaitable[None]]], Awaitable[bool]]
"""Reads the watermark, does what it is given, then keeps a snapshot; whether all of that went well."""


class Adoption:
    """Takes slots over, for the desk of one shard."""

    def __init__(self, desk: ShardDesk, peers: Peers, *, shard: int, shards: int, keep: Keep) -> None:
        self._desk = desk
        self._peers = peers
        self._shard = shard
        self._shards = shards
        self._keep = keep
        self._log = _log.bind(shard=shard)

    async def relieve(self, *, busy_here: float, difference: float) -> int:
        """Take slots from the busiest shard if it is busier by `difference`; how many were taken.

        Raises ShardError, StateUnavailable when the others cannot be asked.
        """
        busy, asked = await self._loads()
        wanted = relief(
            busy | {self._shard: busy_here},
            asked | {self._shard: self._desk.slots.asked},
            here=self._shard,
            difference=difference,
        )
        return 0 if wanted is None else await self.adopt(wanted)

    async def adopt(self, wanted: Relief) -> int:
        """Take these slots over, one after the other; how many were. Raises ShardError, StateUnavailable."""
        # Never what is here: the other's figures may be older than the last move, and copying drops rows.
        to_take, taken = [slot for slot in wanted.slots if not self._desk.slots.held()[slot]], 0
        peer = await self._peers.find(wanted.shard)

        async def copied() -> None:
            for slot in list(to_take):
                if not await self._take_in(peer, slot, Operation.COPY):
                    to_take.remove(slot)

        try:
            if not await self._keep(copied):
                return 0
            for slot in list(to_take):
                if await self._take_in(peer, slot, Operation.TAKE):
                    to_take.remove(slot)  # from now on the other shard decides, whatever happens here
                    taken += await self._is_given(wanted.shard, slot)
        finally:
            for slot in to_take:
                self._forget(slot)
        self._log.info("slots_adopted", slots=taken, of_shard=wanted.shard)
        return taken

    async def resolve(self) -> None:
        """Find out whose the slots are whose rows a snapshot has, and which another shard served when this
        one came back: it may have died between the copy and the answer. Raises StateUnavailable."""
        for slot in sorted(self._desk.slots.coming):
            owner = await self._peers.owner_of(slot)
            if owner == self._shard:
                self._desk.slots.take(slot)
            else:
                await self._is_given(owner, slot)

    def _forget(self, slot: int) -> None:
        self._desk.slots.coming.discard(slot)
        self._desk.table.drop(slot)

    async def _take_in(self, peer: Peer, slot: int, operation: Operation) -> bool:
        """Its rows as the other shard has them; False when it is not there any more."""
        try:
            rows = TableRows.read(await peer.ask(operation, slot), self._desk.table.row_size)
        except ShardRefused:
            return False
        self._desk.slots.coming.add(slot)
        self._desk.table.drop(slot)  # rows that the other shard forgot meanwhile
        self._desk.table.take_in(rows)
        return True

    async def _is_given(self, shard: int, slot: int) -> bool:
        """Ask until it is known whose the slot is; serve it when it is ours."""
        while True:
            try:
                ours = await self._released(shard, slot)
            except (ShardError, StateUnavailable) as error:
                self._log.warning("slot_in_between", slot=slot, of_shard=shard, why=str(error))
                await asyncio.sleep(_AGAIN_S)
            else:
                if ours:
                    self._desk.slots.take(slot)
                else:
                    self._forget(slot)
                return ours

    async def _released(self, shard: int, slot: int) -> bool:
        """Whether the other shard gives it away. What it gave it does not remember: then the store knows.
        Raises ShardError, StateUnavailable."""
        try:
            await (await self._peers.find(shard)).ask(Operation.RELEASE, slot)
        except ShardRefused:
            return await self._peers.owner_of(slot) == self._shard
        return True

    async def _loads(self) -> tuple[dict[int, float], dict[int, Asked]]:
        """Of the other shards: how busy they are, and what they were asked for by slot."""
        busy, asked = {}, {}
        for shard in set(range(self._shards)) - {self._shard}:
            figures = json.loads(await (await self._peers.find(shard)).ask(Operation.STATS))
            busy[shard], asked[shard] = float(figures["busy"]), np.array(figures["asked"], np.float64)
        return busy, asked
