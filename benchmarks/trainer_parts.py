"""Parts of the trainer by themselves: memory of a row, time to decode, the wire against gRPC."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import psutil

from benchmarks.trainer_loops import ROWS
from services.samples.decode import decode
from services.samples.layout import Samples, encode
from services.trainer.ps.desk import ShardDesk
from services.trainer.ps.link import ShardAddress, ShardLink
from services.trainer.ps.placement import keys_of
from services.trainer.ps.server import ShardServer
from services.trainer.ps.snapshot import Position, Snapshot, SnapshotVault
from services.trainer.ps.table import EmbeddingTable, Learning
from services.trainer.ps.wire import Flag, Operation, Request

_DIM = 16
_KEYS = 16_384


def bytes_per_row() -> float:
    """Resident memory of a table of 2,000,000 ids of dimension 16, over its rows; in a process of its own."""
    program = "from benchmarks.trainer_parts import fill_table; print(fill_table())"
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)


def fill_table() -> float:
    """What this process grew by, over the rows. The loops are compiled before."""
    learning = Learning()
    ShardDesk(row_size=1 + _DIM, rows_max=4, learning=learning).warm_up()
    before = psutil.Process().memory_info().rss
    table = EmbeddingTable(row_size=1 + _DIM, rows_max=ROWS, learning=learning)
    for first in range(0, ROWS, 10_000):
        table.pull(keys_of(np.arange(first, first + 10_000, dtype=np.uint64).reshape(-1, 1)).ravel())
    assert len(table) == ROWS
    return (psutil.Process().memory_info().rss - before) / ROWS


def snapshot_costs() -> dict[str, float]:
    """Of a shard with 2,000,000 rows: how long its requests wait for the copy, how long the disk takes, and
    which share of the rows a minute at 20,000 samples/s touches, keys drawn by Zipf's law as clicks are."""
    desk = ShardDesk(row_size=1 + _DIM, rows_max=ROWS, learning=Learning())
    for first in range(0, ROWS, 10_000):
        desk.table.pull(keys_of(np.arange(first, first + 10_000, dtype=np.uint64).reshape(-1, 1)).ravel())
    began_s = time.perf_counter()
    snapshot = Snapshot.of(desk, Position())
    copied_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        size = SnapshotVault(Path(directory)).write(snapshot).stat().st_size
        written_s = time.perf_counter()
    weights = np.cumsum(np.arange(1, ROWS + 1, dtype=np.float64) ** -0.8)
    asked = np.random.default_rng(1).random(60 * 20_000 * 26) * weights[-1]
    touched = np.zeros(ROWS, bool)
    for part in np.array_split(asked, 64):
        touched[np.minimum(np.searchsorted(weights, part), ROWS - 1)] = True
    return {
        "copy_s": copied_s - began_s,
        "write_s": written_s - copied_s,
        "bytes": float(size),
        "touched_in_a_minute": float(touched.mean()),
    }


def decode_us(samples: Samples) -> dict[str, float]:
    """Microseconds of CPU a sample, binary and JSON."""
    part = samples.taken(np.arange(min(1024, len(samples))))
    texts = [
        json.dumps(
            {"v": 1, "label": float(label), "at_s": float(at_s), "ids": ids, "numbers": numbers}
        ).encode()
        for label, at_s, ids, numbers in zip(
            part.labels, part.at_s, part.ids.tolist(), part.numbers.tolist(), strict=True
        )
    ]
    values = encode(part)
    return {
        "binary": 1e6 * _best_s(lambda: decode(values, part.shape), tries=30) / len(part),
        "json": 1e6 * _best_s(lambda: decode(texts, part.shape), tries=3) / len(part),
    }


def round_trips_ms() -> dict[str, float]:
    """A pull of 16,384 rows of 17 numbers: over our frames, and over gRPC where that is installed."""
    keys = keys_of(np.arange(_KEYS, dtype=np.uint64).reshape(-1, 1)).ravel()
    desk = ShardDesk(row_size=1 + _DIM, rows_max=4 * _KEYS, learning=Learning())
    desk.warm_up()
    found = {"frames": _over_frames(desk, keys)}
    over_grpc = _over_grpc(desk, keys)
    return found if over_grpc is None else {**found, "grpc": over_grpc}


def _over_frames(desk: ShardDesk, keys: Any) -> float:
    server, ready, over = ShardServer(desk), Event(), Event()
    port: list[int] = []

    async def serve() -> None:
        port.append(await server.start("127.0.0.1"))
        ready.set()
        await asyncio.to_thread(over.wait)
        await server.close()

    thread = Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    link = ShardLink(ShardAddress("127.0.0.1", port[0], server.secret), timeout_s=30.0)
    took_s = _best_s(lambda: link.ask(Request(Operation.PULL, keys)), tries=50, clock=time.perf_counter)
    link.close()
    over.set()
    thread.join()
    return 1e3 * took_s


def _over_grpc(desk: ShardDesk, keys: Any) -> float | None:
    try:
        grpc: Any = import_module("grpc")
    except ImportError:
        return None
    limits = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]

    def pull(body: bytes, _: object) -> bytes:
        return desk.answer(
            Operation.PULL, Flag.NONE, np.frombuffer(bytearray(body), np.uint64), memoryview(b"")
        )

    server = grpc.server(ThreadPoolExecutor(1), options=limits)
    handlers = {"Pull": grpc.unary_unary_rpc_method_handler(pull)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Shard", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=limits) as channel:
        ask = channel.unary_unary("/Shard/Pull")
        took_s = _best_s(lambda: ask(keys.tobytes()), tries=50, clock=time.perf_counter)
    server.stop(None).wait()
    return 1e3 * took_s


def _best_s(
    task: Callable[[], object], *, tries: int, clock: Callable[[], float] = time.process_time
) -> float:
    best_s = float("inf")
    for _ in range(tries):
        began_s = clock()
        task()
        best_s = min(best_s, clock() - began_s)
    return best_s
