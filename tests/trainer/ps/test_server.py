"""Workers pull and push over sockets: right, in halves, on several shards, and when shards go away."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing
from dataclasses import replace
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.samples.layout import Floats, Ids
from services.trainer.ps.client import ParameterClient
from services.trainer.ps.errors import ShardMissing, ShardRefused, ShardUnavailable
from services.trainer.ps.link import ShardAddress, ShardLink
from services.trainer.ps.placement import keys_of
from services.trainer.ps.server import ServiceTimes
from services.trainer.ps.wire import Flag, Operation, Request, pack_rows, rows_bytes, unpack_rows
from tests.trainer.ps.shards import ListedShards, address_of, desk, serving
from tests.waiting import eventually

IDS = np.array([[1, 10], [2, 10], [1, 11]], np.uint64)
DENSE = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
NOBODY: Ids = np.empty(0, np.uint64)


def client_of(directory: ListedShards, *, shards: int = 1, half: bool = False) -> ParameterClient:
    return ParameterClient(
        directory, shards=shards, row_size=3, half=half, timeout_s=10.0, patient=lambda: False
    )


def flat(gradient: Floats) -> Floats:
    return gradient.reshape(-1, 3)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("half", [False, True])
def test_what_is_pushed_is_pulled_by_others_and_equal_ids_are_sent_once(shards: int, half: bool) -> None:
    directory, desks = ListedShards(), [desk() for _ in range(shards)]
    with ExitStack() as stack:
        for number, shard in enumerate(desks):
            directory.addresses[number] = address_of(stack.enter_context(serving(shard)))
        one, other = client_of(directory, shards=shards, half=half), client_of(directory, shards=shards)
        one.begin(DENSE)
        keyed = one.keyed(IDS)
        before = one.pull(keyed)

        gradients = np.ones((3, 2, 3), np.float32)
        one.push(keyed, gradients, np.ones(4, np.float32))
        after = other.pull(other.keyed(IDS))
        for client in (one, other):
            client.close()

    assert len(keyed.keys) == 4
    assert before.rows.shape == (3, 2, 3)
    assert np.array_equal(before.rows[0, 0], before.rows[2, 0]), "the same id of the same field"
    assert not np.array_equal(before.rows[0, 1], before.rows[2, 1])
    assert before.dense.tolist() == DENSE.tolist()
    # Adagrad's first step is as long for any gradient: the rate over the root of the mean square.
    assert after.rows == pytest.approx(before.rows - 0.05, abs=2e-4)
    assert after.dense == pytest.approx(DENSE - 0.01)
    assert sum(len(shard.table) for shard in desks) == 4
    assert all(len(shard.table) for shard in desks)


@given(
    rows=st.integers(0, 6).flatmap(
        lambda count: st.lists(st.floats(-1e4, 1e4, width=32), min_size=3 * count, max_size=3 * count)
    )
)
def test_rows_travel_whole_or_in_halves(rows: list[float]) -> None:
    table = np.array(rows, np.float32).reshape(-1, 3)
    for flags in (Flag.NONE, Flag.HALF):
        packed = pack_rows(table, flags)

        assert len(packed) == rows_bytes(len(table), 3, flags)
        largest = float(np.abs(table).max(initial=0.0))
        assert unpack_rows(packed, len(table), 3, flags) == pytest.approx(table, abs=largest * 1e-3)
    assert np.array_equal(unpack_rows(pack_rows(table, Flag.NONE), len(table), 3, Flag.NONE), table)


def test_gradients_of_one_id_are_added_up_before_they_are_sent() -> None:
    keyed = client_of(ListedShards()).keyed(IDS)
    gradients = np.arange(18, dtype=np.float32).reshape(3, 2, 3)

    sums = keyed.summed(gradients)

    first = int(keyed.place[0, 0])
    assert sums[first].tolist() == (gradients[0, 0] + gradients[2, 0]).tolist()
    assert sums[keyed.place[1, 0]].tolist() == gradients[1, 0].tolist()
    assert set(keyed.keys.tolist()) == set(keys_of(IDS).ravel().tolist())


def test_a_gradient_that_is_no_number_is_refused_and_moves_nothing() -> None:
    directory, shard = ListedShards(), desk()
    with serving(shard) as server:
        directory.addresses[0] = address_of(server)
        client = client_of(directory)
        client.begin(DENSE)
        keyed = client.keyed(IDS)
        before = client.pull(keyed)
        wrong = np.ones((3, 2, 3), np.float32)
        wrong[1, 1, 1] = np.nan
        with pytest.raises(ShardRefused, match="not finite"):
            client.push(keyed, wrong, np.ones(4, np.float32))
        with pytest.raises(ShardRefused, match="has 4"):
            client.push(keyed, np.ones((3, 2, 3), np.float32), np.ones(2, np.float32))

        assert np.array_equal(client.pull(keyed).rows, before.rows)
        client.close()
    assert shard.version == 0
    assert server.refused == 2


@pytest.mark.parametrize("row_size", [2, 7])
@pytest.mark.parametrize("half", [False, True])
def test_a_worker_with_rows_of_another_size_is_told_so(row_size: int, half: bool) -> None:
    shards = ListedShards()
    with serving(desk(row_size=3)) as server:
        shards.addresses[0] = address_of(server)
        client = ParameterClient(shards, shards=1, row_size=row_size, dense_shards=0, half=half)

        with pytest.raises(ShardRefused, match=r"another size; set parameters\.dim"):
            client.pull(client.keyed(np.array([[1], [2]], np.uint64)))


@pytest.mark.parametrize("keys", [100, 3000], ids=["the answer", "the question"])
def test_a_batch_too_large_for_a_frame_is_refused_and_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, keys: int
) -> None:
    for module in ("link", "server"):
        monkeypatch.setattr(f"services.trainer.ps.{module}.FRAME_BYTES_MAX", 10_000)
    shards = ListedShards()
    with serving(desk(row_size=60, rows_max=5000)) as server:
        shards.addresses[0] = address_of(server)
        client = ParameterClient(shards, shards=1, row_size=60, dense_shards=0, patient=lambda: False)

        with closing(client), pytest.raises(ShardRefused, match=r"make worker\.batch smaller"):
            client.pull(client.keyed(np.arange(keys, dtype=np.uint64)[:, None]))


def test_whoever_does_not_know_the_secret_is_refused() -> None:
    with serving(desk()) as server:
        address = address_of(server)
        with pytest.raises(ShardUnavailable, match="secret is wrong"):
            ShardLink(ShardAddress(address.host, address.port, "guess"), timeout_s=10.0)


def test_a_worker_that_read_the_secret_of_the_process_before_reads_the_new_one() -> None:
    """On a fixed port the new process listens before it is listed."""
    directory, shard = Stale(), desk()
    with serving(shard) as server:
        now = directory.addresses[0] = address_of(server)
        directory.before = replace(now, secret="the one before")  # noqa: S106 - it opens nothing
        client = ParameterClient(directory, shards=1, row_size=3)
        client.begin(DENSE)
        client.close()

    assert len(shard.dense.values) == len(DENSE)
    assert directory.before is None, "it was tried"


def test_whoever_trains_leases_of_a_newer_epoch_looks_again_where_the_shards_are() -> None:
    """One that lost something has moved the ledger; the process before it may live, and answer."""
    directory, before, after = ListedShards(), desk(), desk()
    with serving(before) as one, serving(after) as two:
        directory.addresses[0] = address_of(one)
        client = client_of(directory)
        client.since(5)
        client.begin(DENSE)
        directory.addresses[0] = address_of(two)
        client.since(5)
        client.pull(client.keyed(IDS))
        assert len(before.table) == 4, "a connection is kept while nothing has happened"
        client.since(6)
        client.begin(DENSE)
        client.pull(client.keyed(IDS))
        client.close()

    assert len(after.table) == 4


class Stale(ListedShards):
    """Tells once where a shard was before."""

    before: ShardAddress | None = None

    def find(self, shard: int) -> ShardAddress:
        before, self.before = self.before, None
        return before or super().find(shard)


def test_a_worker_of_a_release_with_another_wire_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(desk()) as server:
        monkeypatch.setattr(
            "services.trainer.ps.wire.WIRE_FORM", 7
        )  # what it writes; the shard keeps its own
        with pytest.raises(ShardRefused, match="speaks form 7 of the wire, this shard form 0"):
            ShardLink(address_of(server), timeout_s=10.0)


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x00"])
def test_noise_on_the_port_harms_nobody(noise: bytes) -> None:
    with serving(desk()) as server:
        address = address_of(server)
        with socket.create_connection((address.host, address.port), timeout=10) as stranger:
            stranger.sendall(noise)
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(1024):
                pass
        link = ShardLink(address, timeout_s=10.0)

        assert link.ask(Request(Operation.STATS, NOBODY)).body.startswith(b'{"rows": 0')
        link.close()


def test_a_shard_that_is_not_listed_or_not_there_is_named() -> None:
    directory = ListedShards()
    client = client_of(directory)
    with pytest.raises(ShardMissing, match="penstock shard --job clicks --shard 0"):
        client.pull(client.keyed(IDS))
    with serving(desk()) as server:
        directory.addresses[0] = address_of(server)
    with pytest.raises(ShardUnavailable, match="does not answer"):
        client.pull(client.keyed(IDS))


def test_a_worker_waits_for_a_shard_that_comes_back_elsewhere_with_what_it_had() -> None:
    directory, shard = ListedShards(), desk()
    client = ParameterClient(directory, shards=1, row_size=3)
    with serving(shard) as server:
        directory.addresses[0] = address_of(server)
        client.begin(DENSE)
        keyed = client.keyed(IDS)
        client.pull(keyed)

    pushing = Thread(
        target=client.push, args=(keyed, np.ones((3, 2, 3), np.float32), np.ones(4, np.float32)), daemon=True
    )
    pushing.start()
    with serving(shard) as server:
        directory.addresses[0] = address_of(server)
        pushing.join(30)
        assert not pushing.is_alive()
        assert shard.version == 1
        client.close()


class Missed(ListedShards):
    """Counts how often a shard that is away was looked for."""

    looks = 0

    def find(self, shard: int) -> ShardAddress:
        self.looks += shard not in self.addresses
        return super().find(shard)


def test_while_a_shard_is_away_the_others_take_a_push_in_once() -> None:
    directory, desks = Missed(), [desk(), desk()]
    client = ParameterClient(directory, shards=2, row_size=3, dense_shards=2)
    with ExitStack() as stack:
        directory.addresses[0] = address_of(stack.enter_context(serving(desks[0])))
        keyed = client.keyed(IDS)
        for shard in desks:
            shard.table.pull(keyed.keys)
        gradients = np.ones((3, 2, 3), np.float32)
        pushing = Thread(target=client.push, args=(keyed, gradients, np.ones(4, np.float32)), daemon=True)
        pushing.start()
        eventually(lambda: directory.looks > 5, what="a few tries")
        assert desks[0].version == 1
        directory.addresses[1] = address_of(stack.enter_context(serving(desks[1])))
        pushing.join(30)

        assert not pushing.is_alive()
        assert [shard.version for shard in desks] == [1, 1]
        client.close()


def test_every_answer_tells_how_busy_the_shard_is() -> None:
    directory, shard = ListedShards(), desk()
    with serving(shard, service_ms=20.0) as server:
        directory.addresses[0] = address_of(server)
        client = client_of(directory)
        client.begin(DENSE)

        def busy() -> bool:
            client.pull(client.keyed(IDS))
            return client.loads[0].busy > 0.5

        eventually(busy, every_s=0.0, what="a busy shard told so")
        figures, told = server.figures(), client.loads[0]
        client.close()
    assert (told.rows, told.queue) == (4, 0)
    assert (told.bytes_in, told.bytes_out) <= (figures["bytes_in"], figures["bytes_out"])
    assert min(told.bytes_in, told.bytes_out) > 0
    assert figures["rows"] == 4
    assert figures["bytes_in"] > 0
    assert figures["bytes_out"] > figures["requests"] * 36
    assert {"queue", "evicted", "unknown", "version"} <= figures.keys()


def test_equal_service_times_have_no_variability(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr("services.trainer.ps.server.time.monotonic", lambda: now_s[0])
    times = ServiceTimes()
    for _ in range(10):
        times.add(0.05)
    now_s[0] = 1.0
    times.turn()
    assert [times.busy, times.service_cv2] == pytest.approx([0.5, 0.0], abs=1e-9)

    for took_s in (0.0, 0.2):
        times.add(took_s)
    now_s[0] = 2.0
    times.turn()
    assert [times.busy, times.service_cv2] == pytest.approx([0.2, 1.0])
