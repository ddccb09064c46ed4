"""Slots move between shards that are at work: no update is lost, none counts twice, none has two homes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from threading import Event, Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.control.errors import StateUnavailable
from services.samples.layout import Ids
from services.settings.root import RedisSettings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.trainer.ps.adoption import Adoption
from services.trainer.ps.client import ParameterClient
from services.trainer.ps.desk import ShardDesk, Unfit
from services.trainer.ps.directory import RedisDirectory
from services.trainer.ps.errors import ShardMoved, ShardSuperseded
from services.trainer.ps.peers import LinkedPeers
from services.trainer.ps.placement import SLOTS, SlotMap, keys_of, slots_of
from services.trainer.ps.relief import SLOTS_AT_ONCE, Relief, levelled, relief
from services.trainer.ps.server import ShardServer
from services.trainer.ps.slots import FROZEN_S, Heir, SlotDesk
from services.trainer.ps.snapshot import Position, Snapshot
from services.trainer.ps.table import TableRows
from services.trainer.ps.wire import SLOT, Flag, Operation
from tests.trainer.ps.shards import ListedShards, address_of, desk, serving

IDS: Ids = np.arange(400, dtype=np.uint64).reshape(200, 2)
DENSE = np.arange(5, dtype=np.float32)
BUSY = st.dictionaries(st.integers(0, 3), st.floats(0, 1), min_size=1, max_size=4)


class Movable(ListedShards):
    """A directory whose slots begin on shard 0."""

    def __init__(self, shards: int) -> None:
        super().__init__()
        self.map = SlotMap(np.zeros(SLOTS, np.uint16))
        self.away = False
        for_all = range(shards)
        self.desks = [desk() for _ in for_all]
        for number in for_all:
            self.desks[number].slots.settle(self.map, number)

    def slots(self, shards: int) -> SlotMap:
        del shards
        return self.map

    def give(self, slot: int, heir: Heir) -> None:
        if self.away:
            self.away = False
            raise StateUnavailable("redis")
        self.map = self.map.moved(slot, heir.shard)


async def _kept(bring: Callable[[], Awaitable[None]]) -> bool:
    await bring()
    return True


def _adoption(directory: Movable, shard: int, *, shards: int = 2) -> Adoption:
    peers = LinkedPeers(directory, shard=shard, shards=shards)
    return Adoption(directory.desks[shard], peers, shard=shard, shards=shards, keep=_kept)


def _serving(directory: Movable, stack: ExitStack) -> list[ShardServer]:
    servers = [stack.enter_context(serving(each, giver=directory.give)) for each in directory.desks]
    for number, server in enumerate(servers):
        directory.addresses[number] = address_of(server)
    return servers


def _client(directory: ListedShards, *, shards: int = 2, dense_shards: int = 1) -> ParameterClient:
    return ParameterClient(directory, shards=shards, row_size=3, dense_shards=dense_shards)


def _gradients(step: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(step).normal(size=(200, 2, 3)).astype(np.float32)


def test_slots_move_while_gradients_come_and_every_one_counts_once() -> None:
    """The rows are to the last bit what one shard alone would have made of the same gradients."""
    directory, over, pushed = Movable(2), Event(), 0
    wanted = np.unique(slots_of(keys_of(IDS)))[:60]

    def train() -> None:
        nonlocal pushed
        client = _client(directory)
        client.begin(DENSE)
        keyed = client.keyed(IDS)
        while not over.is_set() or pushed < 20:
            client.pull(keyed)
            client.push(keyed, _gradients(pushed), np.ones(5, np.float32))
            pushed += 1
        client.close()

    with ExitStack() as stack:
        _serving(directory, stack)
        trainer = Thread(target=train)
        trainer.start()
        taken = asyncio.run(_adoption(directory, 1).adopt(Relief(0, tuple(wanted.tolist()))))
        over.set()
        trainer.join(60)
        reader = _client(directory)
        found = reader.pull(reader.keyed(IDS))
        reader.close()

    alone = desk()
    keyed = _client(directory).keyed(IDS)
    alone.table.pull(keyed.keys)
    for step in range(pushed):
        alone.table.push(keyed.keys, keyed.summed(_gradients(step)))
    assert taken == len(wanted)
    assert np.array_equal(found.rows, alone.table.pull(keyed.keys)[keyed.place])
    here, there = directory.desks[1].table.content().keys, directory.desks[0].table.content().keys
    assert set(slots_of(here).tolist()) == set(wanted.tolist())
    assert not set(slots_of(there).tolist()) & set(wanted.tolist()), "it forgot what it gave away"


def test_a_slot_stays_when_the_process_that_asked_for_it_was_superseded() -> None:
    """Its place has another by now, which has none of the rows."""
    directory = Movable(2)
    slot = int(slots_of(keys_of(IDS))[0, 0])

    def give(_: int, heir: Heir) -> None:
        raise ShardSuperseded(heir.shard, epoch=heir.epoch, newest=heir.epoch + 1)

    with ExitStack() as stack:
        servers = [stack.enter_context(serving(each, giver=give)) for each in directory.desks]
        directory.addresses = {number: address_of(server) for number, server in enumerate(servers)}
        taken = asyncio.run(_adoption(directory, 1).adopt(Relief(0, (slot,))))

    assert taken == 0
    assert directory.desks[0].slots.served[slot]
    assert not directory.desks[0].slots.leaving
    assert not directory.desks[1].slots.held()[slot]


def test_a_store_that_is_away_delays_a_slot_and_loses_nothing() -> None:
    directory = Movable(2)
    slot = int(slots_of(keys_of(IDS))[0, 0])
    with ExitStack() as stack:
        _serving(directory, stack)
        client = _client(directory)
        client.begin(DENSE)
        keyed = client.keyed(IDS)
        before = client.pull(keyed)
        directory.away = True

        taken = asyncio.run(_adoption(directory, 1).adopt(Relief(0, (slot,))))

        assert taken == 1
        assert not directory.away, "the first try met no store"
        assert np.array_equal(client.pull(keyed).rows, before.rows)
        client.close()


def test_a_shard_that_cannot_keep_a_snapshot_takes_nothing() -> None:
    directory = Movable(2)
    slot = int(slots_of(keys_of(IDS))[0, 0])

    async def unkept(bring: Callable[[], Awaitable[None]]) -> bool:
        await bring()
        return False

    with ExitStack() as stack:
        _serving(directory, stack)
        directory.desks[0].table.pull(keys_of(IDS).ravel())
        peers = LinkedPeers(directory, shard=1, shards=2)
        adoption = Adoption(directory.desks[1], peers, shard=1, shards=2, keep=unkept)

        assert asyncio.run(adoption.adopt(Relief(0, (slot,)))) == 0

    assert directory.map.shard_of[slot] == 0
    assert directory.desks[0].slots.served[slot]
    assert len(directory.desks[1].table) == 0


def test_a_slot_that_is_here_already_is_left_alone_whatever_the_other_shard_was_asked_for() -> None:
    """Its figures may be older than the last move."""
    directory = Movable(2)
    slot = int(slots_of(keys_of(IDS))[0, 0])
    with ExitStack() as stack:
        _serving(directory, stack)
        client = _client(directory)
        client.begin(DENSE)
        keyed = client.keyed(IDS)
        client.pull(keyed)
        first = asyncio.run(_adoption(directory, 1).adopt(Relief(0, (slot,))))
        client.push(keyed, _gradients(0), np.ones(5, np.float32))
        before = client.pull(keyed)

        again = asyncio.run(_adoption(directory, 1).adopt(Relief(0, (slot,))))

        assert (first, again) == (1, 0)
        assert np.array_equal(client.pull(keyed).rows, before.rows)
        assert directory.desks[0].slots.asked[slot] == 0, "it is no burden of that shard any more"
        client.close()


def test_rows_are_handed_out_only_by_the_shard_that_serves_them() -> None:
    elsewhere, request = desk(), memoryview(SLOT.pack(5, 1, 0))
    elsewhere.slots.served[5] = False

    for operation in (Operation.COPY, Operation.TAKE):
        with pytest.raises(Unfit, match="not served here"):
            elsewhere.answer(operation, Flag.NONE, IDS[:0].ravel(), request)


@pytest.mark.parametrize("given", [False, True])
def test_a_shard_that_died_between_copy_and_answer_finds_out_whose_the_slot_is(given: bool) -> None:
    directory = Movable(2)
    slot = int(slots_of(keys_of(IDS))[0, 0])
    there, here = directory.desks
    there.table.pull(keys_of(IDS).ravel())
    here.slots.coming.add(slot)
    here.table.take_in(there.table.slot(slot))
    snapshot = Snapshot.of(here, Position())
    if given:
        there.slots.freeze(slot, 1, now_s=0.0)
        there.slots.release(slot, Heir(1), now_s=0.0)

    back = directory.desks[1] = desk()
    back.slots.settle(directory.map, 1)
    snapshot.restore(back)
    with ExitStack() as stack:
        _serving(directory, stack)
        asyncio.run(_adoption(directory, 1).resolve())

    assert not back.slots.coming
    assert bool(back.slots.served[slot]) is given
    assert directory.map.shard_of[slot] == (1 if given else 0)
    assert (len(back.table.slot(slot)) > 0) is given


def test_a_snapshot_from_before_a_slot_came_says_so() -> None:
    shard = desk()
    shard.slots.settle(SlotMap.by_capacity([1.0, 1.0]), 1)
    snapshot = Snapshot.of(shard, Position())

    assert not snapshot.lacks(shard.slots.served)
    shard.slots.take(3)
    assert snapshot.lacks(shard.slots.served)


def test_a_slot_whose_new_shard_is_silent_is_served_again_and_one_that_left_is_not() -> None:
    slots, key = SlotDesk(), np.array([5 << 54], np.uint64)

    assert slots.freeze(5, 1, now_s=0.0)
    assert not slots.freeze(5, 2, now_s=1.0), "one at a time"
    assert not slots.serves(key, now_s=FROZEN_S - 0.1)
    assert slots.serves(key, now_s=FROZEN_S)
    assert not slots.release(5, Heir(1), now_s=FROZEN_S + 1), "too late"
    slots.freeze(5, 1, now_s=20.0)
    assert not slots.release(5, Heir(2), now_s=21.0), "it is on its way to another"
    assert slots.release(5, Heir(1), now_s=21.0)
    assert not slots.serves(key, now_s=1e6), "it may be the other's by now: only the store may tell"
    slots.gave(5)
    assert not slots.release(5, Heir(1), now_s=22.0), "whoever did not hear it looks in the store"


def test_whoever_has_no_patience_is_told_that_a_slot_moved() -> None:
    directory = Movable(1)
    directory.desks[0].slots.served[:] = False
    with ExitStack() as stack:
        _serving(directory, stack)
        client = ParameterClient(directory, shards=1, row_size=3, patient=lambda: False)
        with pytest.raises(ShardMoved):
            client.pull(client.keyed(IDS))
        client.close()


@pytest.mark.parametrize("dense_shards", [1, 2, 3])
def test_the_dense_part_may_lie_on_several_shards(dense_shards: int) -> None:
    directory = ListedShards()
    desks: list[ShardDesk] = [desk() for _ in range(3)]
    with ExitStack() as stack:
        for number, each in enumerate(desks):
            directory.addresses[number] = address_of(stack.enter_context(serving(each)))
        client = _client(directory, shards=3, dense_shards=dense_shards)
        keyed = client.keyed(IDS[:2])
        unbegun = client.pull(keyed).dense
        client.begin(DENSE)
        client.begin(DENSE + 1)
        begun = client.pull(keyed).dense
        client.push(keyed, np.ones((2, 2, 3), np.float32), np.ones(5, np.float32))
        after = client.pull(keyed).dense
        client.close()

    assert len(unbegun) == 0
    assert begun.tolist() == DENSE.tolist()
    assert after == pytest.approx(DENSE - 0.01)
    assert [len(each.dense.values) > 0 for each in desks] == [n < dense_shards for n in range(3)]


@given(busy=BUSY, here=st.integers(0, 3), seed=st.integers(0, 2**32 - 1))
def test_only_the_idlest_takes_and_never_so_much_that_the_tables_turn(
    busy: dict[int, float], here: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    asked = {shard: random.exponential(random.integers(1, 1000), 40) for shard in busy}
    found = relief(busy, asked, here=here, difference=0.2)

    if found is None:
        return
    assert busy[here] == min(busy.values())
    assert busy[found.shard] == max(busy.values()) > busy[here] + 0.2
    assert 1 <= len(found.slots) <= SLOTS_AT_ONCE
    moved, load = asked[found.shard][list(found.slots)].sum(), {s: a.sum() for s, a in asked.items()}
    there_after = busy[found.shard] * (1 - moved / load[found.shard])
    if busy[here] >= 0.02:  # less does not tell what it can serve
        assert busy[here] * (1 + moved / load[here]) <= there_after + 1e-9


def test_a_shard_that_serves_twice_as_much_is_relieved_to_twice_the_load() -> None:
    """The fast one is asked for as much as the slow one and half as busy: it takes a third of that."""
    slots = np.ones(300)

    found = relief({0: 0.8, 1: 0.4}, {0: slots, 1: slots}, here=1, difference=0.2)

    assert levelled({0: 0.8, 1: 0.4}, {0: 300.0, 1: 300.0}) == pytest.approx({0: 200.0, 1: 400.0})
    assert found is not None
    assert len(found.slots) == SLOTS_AT_ONCE


@given(count=st.integers(0, 30), row_size=st.integers(1, 5))
def test_rows_travel_between_shards_as_they_are(count: int, row_size: int) -> None:
    random = np.random.default_rng(count)
    rows = TableRows(
        random.integers(0, 2**63, count).astype(np.uint64),
        random.normal(size=(count, row_size)).astype(np.float32),
        random.random(count).astype(np.float32),
        np.zeros(count, np.uint32),
    )
    read = TableRows.read(rows.written(), row_size)

    for name in ("keys", "rows", "squares"):
        assert np.array_equal(getattr(read, name), getattr(rows, name))
    with pytest.raises(ValueError, match="no rows"):
        TableRows.read(rows.written() + b"x", row_size)


def test_slots_are_settled_by_capacity_and_once(redis_url: str) -> None:
    with connect_sync(RedisSettings(url=redis_url)) as store:
        keys = Keys(f"capacities-{uuid.uuid4().hex[:8]}")
        first = RedisDirectory(store, keys, "clicks", capacities=(1.0, 3.0)).slots(2)
        later = RedisDirectory(store, keys, "clicks", capacities=(3.0, 1.0)).slots(2)

    assert np.bincount(first.shard_of).tolist() == [256, 768]
    assert (later.shard_of == first.shard_of).all()
