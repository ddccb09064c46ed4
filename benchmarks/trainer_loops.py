"""Plain in-process loops with the trainer's model: what a parameter server is to be measured against."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from services.samples.layout import Samples
from services.trainer.net import NetShape, NumpyNet

ROWS = 2_000_000
BATCH = 1024


def random_samples(count: int, shape: NetShape, *, seed: int = 1) -> Samples:
    """Ids spread over `ROWS` rows in all, some far more common than others."""
    random = np.random.default_rng(seed)
    fields, each = shape.sample.categorical, ROWS // shape.sample.categorical
    ids = (random.random((count, fields)) ** 3 * each).astype(np.uint64)
    return Samples(
        labels=random.integers(0, 2, count).astype(np.float32),
        at_s=np.full(count, time.time()),
        ids=ids,
        numbers=random.normal(size=(count, shape.sample.numeric)).astype(np.float32),
    )


class Pace(NamedTuple):
    """How fast a loop was. CPU time does not depend on who else uses the machine."""

    per_s: float
    cpu_us: float
    """Of one sample."""


class _Stopwatch:
    """Wall and CPU time of this process from its making on."""

    def __init__(self) -> None:
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()

    def pace(self, samples: int) -> Pace:
        return Pace(
            samples / (time.perf_counter() - self._wall_s),
            1e6 * (time.process_time() - self._cpu_s) / samples,
        )


def numpy_loop(samples: Samples, shape: NetShape) -> Pace:
    """One thread: rows by plain indexing, Adagrad in place."""
    net, dense = NumpyNet(shape), shape.first_dense()
    table = np.zeros((ROWS, shape.row_size), np.float32)
    table[:, 1:] = np.random.default_rng(1).uniform(-0.05, 0.05, (ROWS, shape.dim))
    squares, dense_squares = np.zeros(ROWS, np.float32), np.zeros_like(dense)
    first = np.arange(shape.sample.categorical, dtype=np.int64) * (ROWS // shape.sample.categorical)
    rows = samples.ids.astype(np.int64) + first
    watch = _Stopwatch()
    for start in range(0, len(samples) - BATCH + 1, BATCH):
        part = slice(start, start + BATCH)
        lesson = net.learn(table[rows[part]], samples.numbers[part], samples.labels[part], dense)
        keys, place = np.unique(rows[part], return_inverse=True)
        order = np.argsort(place.ravel(), kind="stable")
        starts = np.searchsorted(place.ravel()[order], np.arange(len(keys)))
        sums = np.add.reduceat(lesson.rows.reshape(-1, shape.row_size)[order], starts, axis=0)
        squares[keys] += (sums * sums).mean(axis=1)
        table[keys] -= 0.05 * sums / np.sqrt(squares[keys] + 1e-12)[:, None]
        dense_squares += lesson.dense**2
        dense -= 0.01 * lesson.dense / np.sqrt(dense_squares + 1e-12)
    return watch.pace(len(samples) // BATCH * BATCH)


def torch_loop(samples: Samples, shape: NetShape) -> Pace | None:
    """The same in PyTorch: EmbeddingBag(sparse=True), Adagrad, one thread; None without PyTorch."""
    try:
        torch: Any = import_module("torch")
    except ImportError:
        return None
    torch.set_num_threads(1)
    fields, dim = shape.sample.categorical, shape.dim
    embeddings = torch.nn.EmbeddingBag(ROWS, dim, sparse=True, mode="sum")
    weights = torch.nn.EmbeddingBag(ROWS, 1, sparse=True, mode="sum")
    layers = torch.nn.Sequential(
        torch.nn.Linear(shape.inputs, shape.hidden), torch.nn.ReLU(), torch.nn.Linear(shape.hidden, 1)
    )
    linear = torch.nn.Linear(shape.sample.numeric, 1)
    by_rows = torch.optim.Adagrad([*embeddings.parameters(), *weights.parameters()], lr=0.05)
    by_dense = torch.optim.Adagrad([*layers.parameters(), *linear.parameters()], lr=0.01)
    first = np.arange(fields, dtype=np.int64) * (ROWS // fields)
    ids = torch.from_numpy(samples.ids.astype(np.int64) + first)
    numbers, labels = torch.from_numpy(samples.numbers.copy()), torch.from_numpy(samples.labels.copy())
    watch = _Stopwatch()
    for start in range(0, len(samples) - BATCH + 1, BATCH):
        part = slice(start, start + BATCH)
        rows = embeddings(ids[part].reshape(-1, 1)).view(BATCH, fields, dim)
        pairs = 0.5 * (rows.sum(1).square().sum(1) - rows.square().sum((1, 2)))
        inputs = torch.cat([rows.flatten(1), numbers[part]], dim=1)
        logits = layers(inputs).squeeze(1) + pairs + weights(ids[part]).squeeze(1)
        logits = logits + linear(numbers[part]).squeeze(1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels[part])
        by_rows.zero_grad()
        by_dense.zero_grad()
        loss.backward()
        by_rows.step()
        by_dense.step()
    return watch.pace(len(samples) // BATCH * BATCH)
