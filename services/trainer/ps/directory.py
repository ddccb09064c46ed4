"""Where the shards of a job are, in the store: addresses, secrets, and which slot lies on which."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
import redis

from services.store.connect import translating
from services.store.errors import StateCorrupt
from services.store.keys import Keys
from services.trainer.ps.errors import ShardMissing, ShardSuperseded, ShardUnavailable
from services.trainer.ps.link import ShardAddress
from services.trainer.ps.placement import SlotMap


class ShardDirectory(Protocol):
    """Finds shards. Every method may raise StateUnavailable."""

    def find(self, shard: int) -> ShardAddress:
        """Where its newest process is. Raises ShardMissing, ShardUnavailable when that does not serve yet."""
        ...

    def slots(self, shards: int) -> SlotMap:
        """Which slot lies on which of so many shards; settled by whoever asks first."""
        ...


class RedisDirectory:
    """Implements ShardDirectory on Redis. A shard that ends stays listed until it comes back elsewhere:
    that it was there tells a restarted one that it has something to restore.

    Every process of a shard claims an epoch before it restores anything, higher than all before. From then on
    the store takes no word of an older one, and nobody is sent there.
    """

    def __init__(
        self, client: redis.Redis, keys: Keys, job: str, *, capacities: Sequence[float] = ()
    ) -> None:
        """`capacities` of the shards, where they are not equal, count when slots are settled."""
        self._capacities = capacities
        self._client = client
        self._job = job
        self._shards = keys.shards(job)
        self._slots = keys.slots(job)

    def find(self, shard: int) -> ShardAddress:
        with translating(self._client, f"HMGET {self._shards}"):
            raw, newest = self._client.hmget(self._shards, [str(shard), _epoch(shard)])
        if raw is None:
            raise ShardMissing(self._job, shard)
        try:
            found = ShardAddress(**json.loads(raw))
        except (ValueError, TypeError) as error:
            raise StateCorrupt(self._shards, wrong=str(error), remedy="start the shard again") from error
        if found.epoch < int(newest or 0):
            raise ShardUnavailable(str(found), "another process of this shard is taking over")
        return found

    def known(self, shard: int) -> bool:
        """Whether such a shard has ever been there."""
        with translating(self._client, f"HEXISTS {self._shards}"):
            return bool(self._client.hexists(self._shards, str(shard)))

    def claim(self, shard: int, *, after: int = 0) -> int:
        """From now on whoever calls is this shard: its epoch, above `after` and all that were claimed."""
        claimed = after

        def raised(pipe: Any) -> None:  # redis-py does not type its pipelines
            nonlocal claimed
            claimed = max(int(pipe.hget(self._shards, _epoch(shard)) or 0), after) + 1
            pipe.multi()
            pipe.hset(self._shards, _epoch(shard), claimed)

        with translating(self._client, f"HSET {self._shards}"):
            self._client.transaction(raised, self._shards)
        return claimed

    def newest(self, shard: int) -> int:
        """The epoch of the process that claimed the shard last; 0 before any."""
        with translating(self._client, f"HGET {self._shards}"):
            return int(self._client.hget(self._shards, _epoch(shard)) or 0)

    def enter(self, shard: int, address: ShardAddress) -> None:
        """This is where the shard is from now on. Raises ShardSuperseded."""

        def listed(pipe: Any) -> None:
            self._check(pipe, {shard: address.epoch})
            pipe.multi()
            pipe.hset(self._shards, str(shard), json.dumps(asdict(address)))

        with translating(self._client, f"HSET {self._shards}"):
            self._client.transaction(listed, self._shards)

    def give(self, slot: int, *, to: int, shards: int, while_: Mapping[int, int] | None = None) -> None:
        """From now on shard `to` serves the slot. Said by the shard that served it, as often as it takes.

        Nothing changes unless the shards of `while_` are still in these epochs: raises ShardSuperseded.
        """

        def moved(pipe: Any) -> None:
            self._check(pipe, while_ or {})
            raw = pipe.get(self._slots)
            after = self._read(raw, shards).moved(slot, to)
            pipe.multi()
            pipe.set(self._slots, _written(after))

        with translating(self._client, f"SET {self._slots}"):
            self._client.transaction(moved, self._slots, self._shards)

    def _check(self, pipe: Any, epochs: Mapping[int, int]) -> None:
        for shard, epoch in epochs.items():
            newest = int(pipe.hget(self._shards, _epoch(shard)) or 0)
            if newest > epoch:
                raise ShardSuperseded(shard, epoch=epoch, newest=newest)

    def slots(self, shards: int) -> SlotMap:
        first = _written(SlotMap.by_capacity(self._capacities or [1.0] * shards))
        with translating(self._client, f"GET {self._slots}"):
            self._client.set(self._slots, first, nx=True)
            raw = self._client.get(self._slots)
        return self._read(raw or first, shards)

    def _read(self, raw: str | bytes, shards: int) -> SlotMap:
        try:
            found = SlotMap(np.array(json.loads(raw), np.uint16))
        except (ValueError, TypeError) as error:
            raise StateCorrupt(self._slots, wrong=str(error), remedy="delete the key") from error
        if int(found.shard_of.max()) >= shards:
            wrong = f"places slots on {int(found.shard_of.max()) + 1} shards; the job has {shards}"
            raise StateCorrupt(
                self._slots, wrong=wrong, remedy="set parameters.shards back, or delete the key"
            )
        return found


def _epoch(shard: int) -> str:
    return f"epoch:{shard}"


def _written(slots: SlotMap) -> str:
    return json.dumps(slots.shard_of.tolist())
