"""The parameter server as one worker's thread sees it: rows for ids, gradients for rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray

from services.control.errors import StateUnavailable
from services.samples.layout import Floats, Ids
from services.stream.outage import Outage
from services.trainer.ps.directory import ShardDirectory
from services.trainer.ps.errors import ShardMissing, ShardMoved, ShardRefused, ShardUnavailable
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

_RETRY_S: Final = 0.1
_MOVED_S: Final = 0.01
"""A slot that moves is elsewhere within milliseconds."""
_TURNED_AWAY_MAX: Final = 100
"""After so many looks, that nobody serves a slot is told like any outage."""
_OTHER_ROWS: Final = "its embeddings are of another size; set parameters.dim alike everywhere"
_NONE: Final = np.empty(0, np.uint64)
_NO_PLACES: Final = np.empty(0, np.intp)

Number = TypeVar("Number", np.uint64, np.float32)
Places = NDArray[np.intp]
"""Of keys in a batch."""


class Keyed(NamedTuple):
    """The distinct keys of a batch, and where in the batch each belongs."""

    keys: Ids
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


def _taken(array: NDArray[Number], places: Places) -> NDArray[Number]:
    """The array at these places, which are in order; all of it without a copy, as with a single shard."""
    return array if len(places) == len(array) else array[places]


Asking = Callable[[int, Places], Request]
Hearing = Callable[[int, Places, Answer], object]


class ParameterClient:
    """Pulls and pushes, for one thread. Waits for shards that are away, for as long as `patient` says.

    A push whose answer was lost is sent again, to the shards that did not answer: it may then count
    twice, as a sample may be trained twice; it never counts not at all. Where a slot has moved, only what
    the other shard did not take in is sent to the new one.
    """

    def __init__(
        self,
        directory: ShardDirectory,
        *,
        shards: int,
        row_size: int,
        dense_shards: int = 1,
        half: bool = False,
        timeout_s: float = 10.0,
        patient: Callable[[], bool] = lambda: True,
    ) -> None:
        self._directory = directory
        self._shards = shards
        self._dense_shards = min(dense_shards, shards)
        self._row_size = row_size
        self._half = Flag.HALF if half else Flag.NONE
        self._timeout_s = timeout_s
        self._patient = patient
        self._slots: SlotMap | None = None
        self._links: dict[int, ShardLink] = {}
        self._epoch = 0
        self._outage = Outage("parameter server")
        self.loads: dict[int, Load] = {}
        """The latest word of each shard."""

    def begin(self, dense: Floats) -> None:
        """Say where the dense part starts; it counts only the first time.

        Raises ShardError, StateUnavailable.
        """
        parts = dict(enumerate(np.array_split(dense, self._dense_shards)))

        def asked(shard: int, _: Places) -> Request:
            return Request(Operation.BEGIN, _NONE, parts[shard].tobytes())

        self._ask(_NO_PLACES, _NONE, asked, lambda *_: None)

    def keyed(self, ids: Ids) -> Keyed:
        """The distinct keys of a batch."""
        keys, place = np.unique(keys_of(ids), return_inverse=True)
        return Keyed(keys, place.reshape(ids.shape))

    def pull(self, keyed: Keyed) -> Pulled:
        """The rows of every sample, and the dense part, empty while nobody said where it starts.

        Raises ShardError, StateUnavailable.
        """
        rows = np.empty((len(keyed.keys), self._row_size), np.float32)
        dense: dict[int, Floats] = {}

        def asked(shard: int, places: Places) -> Request:
            flags = self._half | (Flag.DENSE if shard not in dense and self._has_dense(shard) else Flag.NONE)
            return Request(Operation.PULL, _taken(keyed.keys, places), flags=flags)

        def heard(shard: int, places: Places, answer: Answer) -> None:
            beyond = len(answer.body) - rows_bytes(len(places), self._row_size, self._half)
            if beyond < 0 or beyond % 4 or (beyond and not self._has_dense(shard)):
                raise ShardRefused(str(self._links[shard].address), _OTHER_ROWS)
            rows[places] = unpack_rows(answer.body, len(places), self._row_size, self._half)
            if shard not in dense and self._has_dense(shard):
                dense_at = rows_bytes(len(places), self._row_size, self._half)
                dense[shard] = np.frombuffer(answer.body, np.float32, offset=dense_at)

        self._ask(np.arange(len(keyed.keys)), keyed.keys, asked, heard)
        parts = [dense[shard] for shard in range(self._dense_shards)]
        begun = all(len(part) for part in parts)
        return Pulled(rows[keyed.place], np.concatenate(parts) if begun else parts[0][:0])

    def push(self, keyed: Keyed, rows: Floats, dense: Floats) -> None:
        """Hand over gradients; returns when every shard has taken them in. Raises ShardError,
        StateUnavailable."""
        sums = keyed.summed(rows)
        parts = dict(enumerate(np.array_split(dense, self._dense_shards)))

        def asked(shard: int, places: Places) -> Request:
            numbers, flags = pack_rows(_taken(sums, places), self._half), self._half
            if shard in parts:
                numbers, flags = numbers + parts[shard].tobytes(), flags | Flag.DENSE
            return Request(Operation.PUSH, _taken(keyed.keys, places), numbers, flags)

        self._ask(np.arange(len(keyed.keys)), keyed.keys, asked, lambda shard, *_: parts.pop(shard, None))

    def since(self, epoch: int) -> None:
        """Leases of this epoch of the ledger are trained from now on.

        A shard that lost something has moved the ledger, after it had claimed its place in the store: whoever
        trains what was leased since must look there. What was pushed elsewhere before does not count: the
        leases it was for are lost.
        """
        if epoch > self._epoch:
            self._epoch = epoch
            self.close()

    def close(self) -> None:
        """Hang up everywhere."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    @property
    def version(self) -> int:
        """Batches that the parameter server has taken in, by the latest word of the first shard."""
        return self.loads[0].version if 0 in self.loads else 0

    def _has_dense(self, shard: int) -> bool:
        return shard < self._dense_shards

    def _slot_map(self) -> SlotMap:
        while self._slots is None:
            try:
                self._slots = self._directory.slots(self._shards)
            except StateUnavailable as error:
                self._wait(error)
        return self._slots

    def _ask(self, places: Places, keys: Ids, asked: Asking, heard: Hearing) -> None:
        """All shards at once; those that did not answer again, and what has moved elsewhere, until all have.

        `places` are those of the keys to ask for; shards with a dense part are asked in any case.
        """
        missing, dense, turned_away = places, set(range(self._dense_shards)), 0
        while len(missing) or dense:
            by_shard = dict.fromkeys(sorted(dense), _NO_PLACES) | self._by_shard(missing, keys)
            answered: set[int] = set()
            try:
                for shard in self._round(by_shard, asked, heard):
                    answered.add(shard)
            except ShardMoved as error:
                turned_away += 1
                if turned_away > _TURNED_AWAY_MAX or not self._patient():
                    self._wait(error)
                time.sleep(_MOVED_S)
            except (ShardUnavailable, ShardMissing, StateUnavailable) as error:
                self._wait(error)
            else:
                self._outage.answered()
            dense -= answered
            unanswered = [places for shard, places in by_shard.items() if shard not in answered]
            missing = np.sort(np.concatenate(unanswered)) if unanswered else _NO_PLACES

    def _by_shard(self, places: Places, keys: Ids) -> dict[int, Places]:
        if not len(places):
            return {}
        if self._shards == 1:
            return {0: places}
        shards = self._slot_map().shards(keys[places])
        order = np.argsort(shards, kind="stable")
        bounds = np.searchsorted(shards[order], np.arange(self._shards + 1))
        parts = {shard: places[order[bounds[shard] : bounds[shard + 1]]] for shard in range(self._shards)}
        return {shard: part for shard, part in parts.items() if len(part)}

    def _wait(self, error: Exception) -> None:
        """A little; raises `error` when there is no patience left."""
        self._outage.failed(error)
        if not self._patient():
            raise error
        time.sleep(_RETRY_S)

    def _round(self, by_shard: dict[int, Places], asked: Asking, heard: Hearing) -> Iterator[int]:
        """Ask each, then hear each that was asked, and tell who has answered.

        Whoever was asked and not heard is hung up on: its answer would come in the place of the next one.
        What moved and who is away is told when all were heard: one that took a push in and was not heard
        would be sent it again, and take it in again, for as long as another is away.
        """
        waiting: set[int] = set()
        away: Exception | None = None
        moved: ShardMoved | None = None
        with self._hanging_up(waiting):
            for shard, places in by_shard.items():
                try:
                    self._send(shard, asked(shard, places))
                    waiting.add(shard)
                except (ShardUnavailable, ShardMissing, StateUnavailable) as error:
                    away = error
            for shard in sorted(waiting):
                try:
                    answer = self._links[shard].receive()
                except ShardUnavailable as error:
                    away = error
                    continue
                except ShardMoved as error:
                    self._slots, moved = None, error
                else:
                    heard(shard, by_shard[shard], answer)
                    self.loads[shard] = answer.load
                    yield shard
                waiting.discard(shard)
        if away is not None:
            raise away
        if moved is not None:
            raise moved

    def _send(self, shard: int, request: Request) -> None:
        if shard not in self._links:
            self._links[shard] = ShardLink(self._directory.find(shard), timeout_s=self._timeout_s)
        try:
            self._links[shard].send(request)
        except ShardUnavailable:
            self._links.pop(shard).close()
            raise

    @contextmanager
    def _hanging_up(self, waiting: set[int]) -> Iterator[None]:
        try:
            yield
        finally:
            for shard in waiting:
                self._links.pop(shard).close()
