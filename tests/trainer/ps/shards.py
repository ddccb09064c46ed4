"""Shards served from a thread of the test, and a directory without a store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from services.trainer.ps.desk import ShardDesk
from services.trainer.ps.errors import ShardMissing
from services.trainer.ps.link import ShardAddress
from services.trainer.ps.placement import SlotMap
from services.trainer.ps.server import Giver, ShardServer
from services.trainer.ps.table import Learning


def desk(*, row_size: int = 3, rows_max: int = 1000, learning: Learning | None = None) -> ShardDesk:
    return ShardDesk(row_size=row_size, rows_max=rows_max, learning=learning or Learning())


class ListedShards:
    """A ShardDirectory that is a list."""

    def __init__(self) -> None:
        self.addresses: dict[int, ShardAddress] = {}

    def find(self, shard: int) -> ShardAddress:
        if shard not in self.addresses:
            raise ShardMissing("clicks", shard)
        return self.addresses[shard]

    def slots(self, shards: int) -> SlotMap:
        return SlotMap.by_capacity([1.0] * shards)


@contextmanager
def serving(
    shard: ShardDesk, *, service_ms: float = 0.0, giver: Giver = lambda *_: None
) -> Iterator[ShardServer]:
    """The shard listens on `server.address` until the context ends."""
    server, ready, over = ShardServer(shard, service_ms=service_ms, giver=giver), Event(), Event()
    where: list[int] = []

    async def run() -> None:
        where.append(await server.start("127.0.0.1"))
        ready.set()
        while not over.is_set():  # noqa: ASYNC110 - set from another thread
            await asyncio.sleep(0.005)
        await server.close()

    thread = Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(20)
    server_at[id(server)] = ShardAddress("127.0.0.1", where[0], server.secret)
    try:
        yield server
    finally:
        over.set()
        thread.join(20)


server_at: dict[int, ShardAddress] = {}


def address_of(server: ShardServer) -> ShardAddress:
    return server_at[id(server)]
