"""Where the shards of a job are, in the store: addresses, secrets, and which slot lies on which."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
import redis

from services.store.connect import translating
from services.store.errors import StateCorrupt
from services.store.keys import Keys
from services.trainer.ps.errors import ShardMissing
from services.trainer.ps.link import ShardAddress
from services.trainer.ps.placement import SlotMap


class ShardDirectory(Protocol):
    """Finds shards. Every method may raise StateUnavailable."""

    def find(self, shard: int) -> ShardAddress:
        """Where it is now. Raises ShardMissing."""
        ...

    def slots(self, shards: int) -> SlotMap:
        """Which slot lies on which of so many shards; settled by whoever asks first."""
        ...


class RedisDirectory:
    """Implements ShardDirectory on Redis. A shard that ends stays listed until it comes back elsewhere:
    that it was there tells a restarted one that it has something to restore."""

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
        with translating(self._client, f"HGET {self._shards}"):
            raw = self._client.hget(self._shards, str(shard))
        if raw is None:
            raise ShardMissing(self._job, shard)
        try:
            return ShardAddress(**json.loads(raw))
        except (ValueError, TypeError) as error:
            raise StateCorrupt(self._shards, wrong=str(error), remedy="start the shard again") from error

    def known(self, shard: int) -> bool:
        """Whether such a shard has ever been there."""
        with translating(self._client, f"HEXISTS {self._shards}"):
            return bool(self._client.hexists(self._shards, str(shard)))

    def enter(self, shard: int, address: ShardAddress) -> None:
        """This is where the shard is from now on."""
        with translating(self._client, f"HSET {self._shards}"):
            self._client.hset(self._shards, str(shard), json.dumps(asdict(address)))

    def give(self, slot: int, *, to: int, shards: int) -> None:
        """From now on shard `to` serves the slot. Said by the shard that served it, as often as it takes."""

        def moved(pipe: Any) -> None:  # redis-py does not type its pipelines
            raw = pipe.get(self._slots)
            after = self._read(raw, shards).moved(slot, to)
            pipe.multi()
            pipe.set(self._slots, _written(after))

        with translating(self._client, f"SET {self._slots}"):
            self._client.transaction(moved, self._slots)

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


def _written(slots: SlotMap) -> str:
    return json.dumps(slots.shard_of.tolist())
