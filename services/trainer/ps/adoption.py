"""A shard takes over slots of a busier one, while training goes on.

1. The ledger's watermark is read, then the slot's rows are copied, then a snapshot of both is kept:
   should this shard die later, all that its rows miss is trained again.
2. The slot is frozen at the other shard, and its rows are copied once more: what was acknowledged there
   is in them. Whoever asks for the slot now is turned away and tries again.
3. The other shard is told that they are here. It writes so in the store, forgets them, and answers.

Until that answer the slot is the other shard's. When it is not heard, it is asked for again: the other
shard gives the slot away or does not, and always knows which. So no update is lost and none has two homes.
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
from services.trainer.ps.directory import ShardDirectory
from services.trainer.ps.errors import ShardError, ShardRefused
from services.trainer.ps.link import ShardLink
from services.trainer.ps.relief import Asked, Relief, relief
from services.trainer.ps.table import TableRows
from services.trainer.ps.wire import SLOT, Answer, Operation, Request

_log = structlog.get_logger(__name__)

_AGAIN_S: Final = 0.2
_TIMEOUT_S: Final = 10.0
_NOBODY: Final = np.empty(0, np.uint64)

Keep = Callable[[Callable[[], Awaitable[None]]], Awaitable[bool]]
"""Reads the watermark, does what it is given, then keeps a snapshot; whether all of that went well."""


class Adoption:
    """Takes slots over, for the desk of one shard."""

    def __init__(
        self, desk: ShardDesk, directory: ShardDirectory, *, shard: int, shards: int, keep: Keep
    ) -> None:
        self._desk = desk
        self._directory = directory
        self._shard = shard
        self._shards = shards
        self._keep = keep
        self._log = _log.bind(shard=shard)

    async def relieve(self, *, busy_here: float, difference: float) -> int:
        """Take slots from the busiest shard if it is busier by `difference`; how many were taken.

        Raises ShardError, StateUnavailable when the others cannot be asked.
        """
        busy, asked = await asyncio.to_thread(self._loads)
        wanted = relief(
            busy | {self._shard: busy_here},
            asked | {self._shard: self._desk.slots.asked},
            here=self._shard,
            difference=difference,
        )
        return 0 if wanted is None else await self.adopt(wanted)

    async def adopt(self, wanted: Relief) -> int:
        """Take these slots over, one after the other; how many were. Raises ShardError, StateUnavailable."""
        slots, taken, to_take = self._desk.slots, 0, set(wanted.slots)

        async def copied() -> None:
            for slot in wanted.slots:
                slots.coming.add(slot)
                await self._take_in(wanted.shard, slot, Operation.COPY)

        try:
            if not await self._keep(copied):
                return 0
            for slot in wanted.slots:
                try:
                    await self._take_in(wanted.shard, slot, Operation.TAKE)
                except ShardRefused:
                    continue  # it has gone elsewhere meanwhile
                to_take.discard(slot)  # from now on the other shard decides, whatever happens here
                taken += await self._is_given(wanted.shard, slot)
        finally:
            for slot in slots.coming & to_take:
                self._forget(slot)
        self._log.info("slots_adopted", slots=taken, of_shard=wanted.shard)
        return taken

    async def resolve(self) -> None:
        """Find out whose the slots are whose rows a snapshot has, and which another shard served when this
        one came back: it may have died between the copy and the answer. Raises StateUnavailable."""
        for slot in sorted(self._desk.slots.coming):
            slots = await asyncio.to_thread(self._directory.slots, self._shards)
            if int(slots.shard_of[slot]) == self._shard:
                self._desk.slots.take(slot)
            else:
                await self._is_given(int(slots.shard_of[slot]), slot)

    def _forget(self, slot: int) -> None:
        self._desk.slots.coming.discard(slot)
        self._desk.table.drop(slot)

    async def _take_in(self, shard: int, slot: int, operation: Operation) -> None:
        answer = await asyncio.to_thread(self._ask, shard, operation, slot)
        self._desk.table.drop(slot)  # rows that the other shard forgot meanwhile
        self._desk.table.take_in(TableRows.read(answer.body, self._desk.table.row_size))

    async def _is_given(self, shard: int, slot: int) -> bool:
        """Ask until it is known whose the slot is; serve it when it is ours."""
        while True:
            try:
                ours = await asyncio.to_thread(self._released, shard, slot)
            except (ShardError, StateUnavailable) as error:
                self._log.warning("slot_in_between", slot=slot, of_shard=shard, why=str(error))
                await asyncio.sleep(_AGAIN_S)
            else:
                if ours:
                    self._desk.slots.take(slot)
                else:
                    self._forget(slot)
                return ours

    def _released(self, shard: int, slot: int) -> bool:
        """Whether the other shard gives it away. One that came back does not remember what it gave: then
        the store knows. Raises ShardError, StateUnavailable."""
        try:
            self._ask(shard, Operation.RELEASE, slot)
        except ShardRefused:
            return int(self._directory.slots(self._shards).shard_of[slot]) == self._shard
        return True

    def _ask(self, shard: int, operation: Operation, slot: int | None = None) -> Answer:
        link = ShardLink(self._directory.find(shard), timeout_s=_TIMEOUT_S)
        try:
            numbers = b"" if slot is None else SLOT.pack(slot, self._shard)
            return link.ask(Request(operation, _NOBODY, numbers))
        finally:
            link.close()

    def _loads(self) -> tuple[dict[int, float], dict[int, Asked]]:
        """Of the other shards: how busy they are, and what they were asked for by slot."""
        busy, asked = {}, {}
        for shard in set(range(self._shards)) - {self._shard}:
            figures = json.loads(self._ask(shard, Operation.STATS).body)
            busy[shard], asked[shard] = float(figures["busy"]), np.array(figures["asked"], np.float64)
        return busy, asked
