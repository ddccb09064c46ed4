"""The parameter server as one worker's thread sees it: rows for ids, gradients for rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np
import structlog
from numpy.typing import NDArray

from services.control.errors import StateUnavailable
from services.samples.layout import Floats, Ids
from services.stream.outage import Outage
from services.trainer.ps.directory import ShardDirectory
from services.trainer.ps.errors import ShardMissing, ShardUnavailable
from services.trainer.ps.link import ShardLink
from services.trainer.ps.placement import SlotMap, keys_of
from services.trainer.ps.wire import (
    Answer,
    Flag,
    Load,
    Operation,
    Request,
    pack_rows,
    rows_bytes,
    unpack_rows,
)

_log = structlog.get_logger(__name__)

DENSE_SHARD: Final = 0
"""Keeps the dense part."""
_RETRY_S: Final = 0.1
_NONE: Final = np.empty(0, np.uint64)


class Keyed(NamedTuple):
    """The distinct keys of a batch, by shard, and where in the batch each belongs."""

    keys: Ids
    """Distinct, those of one shard together."""
    bounds: NDArray[np.intp]
    """Shard k has keys[bounds[k]:bounds[k + 1]]."""
    place: NDArray[np.intp]
    """For each sample and field, the place of its key in `keys`."""

    def summed(self, gradients: Floats) -> Floats:
        """Gradients by sample and field, added up by key.

        Most keys of a large batch are there once: the first of each is taken, and only the others
        are added, which is five times as quick as adding up all.
        """
        flat, place = gradients.reshape(self.place.size, -1), self.place.ravel()
        first = np.empty(len(self.keys), np.intp)
        first[place[::-1]] = np.arange(len(place) - 1, -1, -1)
        again = np.ones(len(place), bool)
        again[first] = False
        sums: Floats = flat[first]
        np.add.at(sums, place[again], flat[again])
        return sums


class Pulled(NamedTuple):
    """What a batch needs to be computed."""

    rows: Floats
    """(samples, fields, row_size)"""
    dense: Floats


class ParameterClient:
    """Pulls and pushes, for one thread. Waits for shards that are away, for as long as `patient` says.

    A push whose answer was lost is sent again, to the shards that did not answer: it may then count
    twice, as a sample may be trained twice; it never counts not at all.
    """

    def __init__(
        self,
        directory: ShardDirectory,
        *,
        shards: int,
        row_size: int,
        half: bool = False,
        timeout_s: float = 10.0,
        patient: Callable[[], bool] = lambda: True,
    ) -> None:
        self._directory = directory
        self._shards = shards
        self._row_size = row_size
        self._half = Flag.HALF if half else Flag.NONE
        self._timeout_s = timeout_s
        self._patient = patient
        self._slots: SlotMap | None = None
        self._links: dict[int, ShardLink] = {}
        self._outage = Outage("parameter server")
        self.loads: dict[int, Load] = {}
        """The latest word of each shard."""

    def begin(self, dense: Floats) -> None:
        """Say where the dense part starts; it counts only the first time.

        Raises ShardError, StateUnavailable.
        """
        self._ask({DENSE_SHARD: Request(Operation.BEGIN, _NONE, dense.tobytes())})

    def keyed(self, ids: Ids) -> Keyed:
        """The distinct keys of a batch. Waits for the store the first time. Raises StateUnavailable."""
        keys, place = np.unique(keys_of(ids), return_inverse=True)
        shard = self._slot_map().shards(keys)
        order = np.argsort(shard, kind="stable")
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        bounds = np.searchsorted(shard[order], np.arange(self._shards + 1))
        return Keyed(keys[order], bounds, back[place].reshape(ids.shape))

    def pull(self, keyed: Keyed) -> Pulled:
        """The rows of every sample, and the dense part, empty while nobody said where it starts.

        Raises ShardError, StateUnavailable.
        """
        asked = {}
        for shard, keys in self._by_shard(keyed):
            flags = self._half | (Flag.DENSE if shard == DENSE_SHARD else Flag.NONE)
            if len(keys) or flags & Flag.DENSE:
                asked[shard] = Request(Operation.PULL, keys, flags=flags)
        answers = self._ask(asked)
        rows = np.empty((len(keyed.keys), self._row_size), np.float32)
        for shard, request in asked.items():
            first = int(keyed.bounds[shard])
            count = len(request.keys)
            rows[first : first + count] = unpack_rows(answers[shard].body, count, self._row_size, self._half)
        dense_at = rows_bytes(len(asked[DENSE_SHARD].keys), self._row_size, self._half)
        dense = np.frombuffer(answers[DENSE_SHARD].body, np.float32, offset=dense_at)
        return Pulled(rows[keyed.place], dense)

    def push(self, keyed: Keyed, rows: Floats, dense: Floats) -> None:
        """Hand over gradients; returns when every shard has taken them in. Raises ShardError,
        StateUnavailable."""
        sums = keyed.summed(rows)
        asked = {}
        for shard, keys in self._by_shard(keyed):
            mine = sums[keyed.bounds[shard] : keyed.bounds[shard + 1]]
            numbers, flags = pack_rows(mine, self._half), self._half
            if shard == DENSE_SHARD:
                numbers, flags = numbers + dense.tobytes(), flags | Flag.DENSE
            if len(keys) or flags & Flag.DENSE:
                asked[shard] = Request(Operation.PUSH, keys, numbers, flags)
        self._ask(asked)

    def close(self) -> None:
        """Hang up everywhere."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    def _by_shard(self, keyed: Keyed) -> Iterator[tuple[int, Ids]]:
        for shard in range(self._shards):
            yield shard, keyed.keys[keyed.bounds[shard] : keyed.bounds[shard + 1]]

    def _slot_map(self) -> SlotMap:
        while self._slots is None:
            try:
                self._slots = self._directory.slots(self._shards)
            except StateUnavailable as error:
                self._wait(error)
        return self._slots

    def _ask(self, asked: dict[int, Request]) -> dict[int, Answer]:
        """All at once; those that did not answer again, until all have."""
        answers: dict[int, Answer] = {}
        while len(answers) < len(asked):
            missing = {shard: request for shard, request in asked.items() if shard not in answers}
            try:
                self._round(missing, answers)
            except (ShardUnavailable, ShardMissing, StateUnavailable) as error:
                self._wait(error)
            else:
                self._outage.answered()
        return answers

    def _wait(self, error: Exception) -> None:
        """A little; raises `error` when there is no patience left."""
        self._outage.failed(error)
        if not self._patient():
            raise error
        time.sleep(_RETRY_S)

    def _round(self, asked: dict[int, Request], answers: dict[int, Answer]) -> None:
        """Ask each, then hear each. Whoever was asked and not heard is hung up on: its answer would come
        in the place of the next one."""
        waiting: dict[int, ShardLink] = {}
        with self._hanging_up(waiting):
            for shard, request in asked.items():
                link = self._links.get(shard)
                if link is None:
                    link = ShardLink(self._directory.find(shard), timeout_s=self._timeout_s)
                    self._links[shard] = link
                waiting[shard] = link
                link.send(request)
            for shard in asked:
                answer = waiting[shard].receive()
                del waiting[shard]
                answers[shard] = answer
                self.loads[shard] = answer.load

    @contextmanager
    def _hanging_up(self, waiting: dict[int, ShardLink]) -> Iterator[None]:
        try:
            yield
        finally:
            for shard, link in waiting.items():
                link.close()
                self._links.pop(shard, None)
