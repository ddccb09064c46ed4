"""Of the processes of a shard the one that claimed it last is the shard: the store takes no other's word."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.settings.root import RedisSettings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.trainer.ps.directory import RedisDirectory
from services.trainer.ps.errors import ShardMissing, ShardSuperseded, ShardUnavailable
from services.trainer.ps.link import ShardAddress


@pytest.fixture
def directory(redis_url: str, redis_prefix: str) -> Iterator[RedisDirectory]:
    with connect_sync(RedisSettings(url=redis_url)) as store:
        yield RedisDirectory(store, Keys(redis_prefix), "clicks")


def address(epoch: int) -> ShardAddress:
    return ShardAddress("here", 4000 + epoch, f"secret {epoch}", epoch)


def test_each_process_claims_more_than_all_before_and_than_its_snapshots_tell(
    directory: RedisDirectory,
) -> None:
    assert directory.newest(0) == 0
    assert [directory.claim(0), directory.claim(0)] == [1, 2]
    assert directory.claim(0, after=7) == 8, "the store was lost, the disk was not"
    assert directory.claim(0, after=3) == 9
    assert directory.newest(0) == 9
    assert directory.newest(1) == 0


def test_nobody_is_sent_to_a_process_whose_place_was_claimed_by_another(directory: RedisDirectory) -> None:
    with pytest.raises(ShardMissing):
        directory.find(0)
    directory.enter(0, address(directory.claim(0)))
    assert directory.find(0) == address(1)

    directory.claim(0)
    with pytest.raises(ShardUnavailable, match="taking over"):
        directory.find(0)
    assert directory.known(0)
    with pytest.raises(ShardSuperseded, match="process 1 of shard 0 was superseded by process 2"):
        directory.enter(0, address(1))
    directory.enter(0, address(2))
    assert directory.find(0) == address(2)


@pytest.mark.parametrize("superseded", [0, 1])
def test_a_slot_is_given_only_by_and_to_processes_that_are_their_shards(
    directory: RedisDirectory, superseded: int
) -> None:
    epochs = {shard: directory.claim(shard) for shard in range(2)}
    slot = 3
    before = int(directory.slots(2).shard_of[slot])
    directory.claim(superseded)

    with pytest.raises(ShardSuperseded) as told:
        directory.give(slot, to=1 - before, shards=2, while_=epochs)

    assert told.value.shard == superseded
    assert directory.slots(2).shard_of[slot] == before
    directory.give(slot, to=1 - before, shards=2, while_={**epochs, superseded: epochs[superseded] + 1})
    assert directory.slots(2).shard_of[slot] == 1 - before
