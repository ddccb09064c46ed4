"""A snapshot is there whole or not at all, and what is restored is what was kept."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from services.trainer.ps.desk import ShardDesk
from services.trainer.ps.snapshot import Position, Snapshot, SnapshotVault
from tests.trainer.ps.shards import desk

POSITION = Position({0: 120, 3: 7}, trained=130, topic_id="abc")


def taught(rows: int = 40) -> ShardDesk:
    shard = desk(rows_max=max(rows, 100))
    keys = np.arange(rows, dtype=np.uint64) * np.uint64(7919)
    shard.table.pull(keys)
    shard.table.push(keys, np.ones((rows, 3), np.float32))
    shard.dense.begin(np.ones(5, np.float32))
    shard.version = 9
    return shard


def test_what_is_restored_is_what_was_kept(tmp_path: Path) -> None:
    vault, shard, restored = SnapshotVault(tmp_path / "new"), taught(), desk()
    vault.write(Snapshot.of(shard, POSITION))

    found = vault.latest()
    assert found is not None
    found.restore(restored)

    keys = np.arange(60, dtype=np.uint64) * np.uint64(7919)
    assert (found.position, found.version, found.clean) == (POSITION, 9, False)
    assert np.array_equal(restored.table.pull(keys), shard.table.pull(keys))
    assert restored.dense.values.tolist() == [1.0] * 5


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    vault = SnapshotVault(tmp_path, kept=2)
    assert vault.latest() is None
    for trained in (1, 2, 3):
        vault.write(Snapshot.of(desk(), Position(trained=trained)))

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "000000-0000000002.npz",
        "000000-0000000003.npz",
    ]
    found = vault.latest()
    assert found is not None
    assert found.position.trained == 3


def test_a_full_disk_leaves_the_snapshot_before_whole_and_no_rubbish(tmp_path: Path) -> None:
    vault = SnapshotVault(tmp_path)
    vault.write(Snapshot.of(taught(), POSITION))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (50_000, limits[1])
    )  # the system's own refusal, as on a full disk
    try:
        with pytest.raises(OSError, match=r"(?i)too large|no space"):
            vault.write(Snapshot.of(taught(rows=10_000), Position(trained=999)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert [path.name for path in tmp_path.iterdir()] == ["000000-0000000001.npz"]
    found = vault.latest()
    assert found is not None
    assert found.position == POSITION


def test_a_damaged_snapshot_is_told_of_and_the_one_before_it_taken(tmp_path: Path) -> None:
    vault = SnapshotVault(tmp_path)
    vault.write(Snapshot.of(taught(), POSITION))
    newest = Snapshot.of(taught(), Position(trained=999))
    path = vault.write(newest)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(newest.table.rows.tobytes()) + 100] ^= 0xFF
    path.write_bytes(damaged)

    with capture_logs() as logs:
        found = vault.latest()

    assert found is not None
    assert found.position == POSITION
    assert [log["event"] for log in logs] == ["snapshot_damaged"]


def _wrong_by_one_bit(whole: bytes, at: int) -> bytes:
    return whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]


def test_wherever_a_snapshot_is_damaged_the_one_before_it_is_taken(tmp_path: Path) -> None:
    """Cut short anywhere, empty, or with a wrong bit in any place of zip's list of contents."""
    vault = SnapshotVault(tmp_path)
    vault.write(Snapshot.of(taught(), POSITION))
    newest = vault.write(Snapshot.of(taught(), POSITION))
    whole = newest.read_bytes()
    contents_at = whole.index(b"PK\x01\x02")
    cut = [whole[:length] for length in range(0, len(whole), 101)]
    wrong = [_wrong_by_one_bit(whole, at) for at in (60, 100, 166, *range(contents_at, len(whole)))]

    for damaged in [*cut, *wrong]:
        newest.write_bytes(damaged)
        with capture_logs():
            found = vault.latest()

        assert found is not None
        assert found.position == POSITION


def test_a_copy_that_somebody_laid_beside_the_snapshots_is_left_alone(tmp_path: Path) -> None:
    vault = SnapshotVault(tmp_path, kept=1)
    kept = vault.write(Snapshot.of(taught(), POSITION))
    copy = tmp_path / "000000-0000000001-before-the-upgrade.npz"
    copy.write_bytes(kept.read_bytes())

    vault.write(Snapshot.of(taught(), POSITION))

    assert vault.newest_epoch == 0
    assert vault.latest() is not None
    assert copy.exists()


def test_what_a_superseded_process_keeps_is_never_the_newest(tmp_path: Path) -> None:
    before, after = SnapshotVault(tmp_path), SnapshotVault(tmp_path)
    before.epoch, after.epoch = 1, 2
    before.write(Snapshot.of(taught(), POSITION))
    restored = after.latest()
    assert restored is not None

    after.take_over(restored)
    for _ in range(5):
        before.write(Snapshot.of(taught(), Position(trained=999)))
    found = after.latest()

    assert found is not None
    assert found.position == POSITION
    assert after.newest_epoch == 2


def test_with_nothing_to_restore_a_superseded_process_leaves_nothing_to_restore_either(
    tmp_path: Path,
) -> None:
    before, after = SnapshotVault(tmp_path), SnapshotVault(tmp_path)
    before.epoch, after.epoch = 1, 2

    after.take_over(Snapshot.of(desk(), Position()))
    before.write(Snapshot.of(taught(), Position(trained=999)))
    found = after.latest()

    assert found is not None
    assert found.position == Position()


def test_a_snapshot_of_a_release_that_knew_no_epochs_is_read(tmp_path: Path) -> None:
    vault = SnapshotVault(tmp_path)
    vault.write(Snapshot.of(taught(), POSITION)).rename(tmp_path / "0000000007.npz")
    vault.epoch = 1
    vault.write(Snapshot.of(taught(), Position(trained=999)))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["0000000007.npz", "000001-0000000008.npz"]
    found = vault.latest()
    assert found is not None
    assert found.position.trained == 999


def test_a_clean_snapshot_is_clean_until_more_is_trained(tmp_path: Path) -> None:
    vault = SnapshotVault(tmp_path)
    vault.write(Snapshot.of(taught(), POSITION, clean=True))
    clean = vault.latest()
    assert clean is not None
    vault.take_over(clean)
    opened = vault.latest()

    assert clean is not None
    assert opened is not None
    assert (clean.clean, opened.clean) == (True, False)
    assert opened.position == POSITION
