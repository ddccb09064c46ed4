"""The ledger that all workers of a job share: Lua scripts on Redis, atomic, by the server's clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

import redis
from redis.exceptions import RedisError

from services.store.connect import address_of
from services.store.keys import Keys
from services.stream.errors import LedgerUnavailable
from shuffler.errors import LeaseLost, NotOpened
from shuffler.lease import Completed, Lease, Progress, check_counts
from shuffler.ledger import Terms
from shuffler.watermark import trained_beyond, watermarks

_PARTS: Final = ("state", "partitions", "unleased", "waiting", "workers")
"""The keys of a ledger, in the order in which the scripts name them."""

_SCRIPTS: Final = {
    "acquire": ("book", "settling", "acquire"),
    "settle": ("book", "settling", "settle"),
    **{
        name: ("book", name)
        for name in ("open", "extend", "reset", "renew", "leave", "turn", "turn_end", "progress")
    },
}
"""The files in lua/ that make up each operation. One script each: the server builds all of it anew
for every call, so that the busy ones must not carry the others."""

_RANGE: Final = re.compile(r"(\d+)-(\d+)")

_AT_ONCE: Final = 500
"""Partitions told in one call: a script holds up everybody else on the server."""


class RedisLedger:
    """Implements LeaseLedger; shuffler.ledger.Ledger says what each operation does.

    One instance serves one process. A command whose reply was lost may have been carried out:
    asking again is safe, because `acquire` gives a lease that the worker does not know of again.
    """

    def __init__(
        self,
        client: redis.Redis,
        keys: Keys,
        job: str,
        terms: Terms,
        *,
        now_s: Callable[[], float] | None = None,
    ) -> None:
        """Without `now_s`, as workers on several machines must have it, the server's clock counts."""
        self._client = client
        self._names = [keys.ledger(job, part) for part in _PARTS]
        self._terms = terms
        self._now_s = now_s
        self._scripts = {name: client.register_script(_source(*parts)) for name, parts in _SCRIPTS.items()}
        self._known: dict[int, Lease] = {}

    def open(self, starts: Mapping[int, int], *, after_epoch: int = 0, topic_id: str = "") -> None:
        self._call("open", after_epoch, topic_id, *(number for pair in starts.items() for number in pair))

    def extend(self, ends: Mapping[int, int]) -> None:
        told = list(ends.items())
        for first in range(0, len(told), _AT_ONCE):
            pairs = told[first : first + _AT_ONCE]
            self._call("extend", *(number for pair in pairs for number in pair))

    def reset(
        self,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        *,
        after_epoch: int = 0,
        topic_id: str = "",
        lost: int = 0,
    ) -> None:
        triples = ((p, start, ends.get(p, start)) for p, start in starts.items())
        self._call("reset", after_epoch, topic_id, lost, *(number for triple in triples for number in triple))

    def acquire(
        self,
        worker: str,
        *,
        samples: int,
        prefer: Sequence[int],
        least: int = 1,
        completed: Completed | None = None,
    ) -> Lease | None:
        if samples < 1:
            raise ValueError(f"samples is {samples}; a lease holds at least one")
        first: tuple[str | int, ...] = ("",) * 6
        if completed is not None:
            lease, trained, late, lost = completed.lease, completed.trained, completed.late, completed.lost
            check_counts(lease, trained=trained, late=late, lost=lost)
            first = (lease.token, _as_text(lease), lease.epoch, trained, late, lost)
        known = " ".join(map(str, list(self._known)))
        terms = (self._terms.ttl_s, self._terms.patience_s, self._terms.lapses_max, self._terms.fill_s)
        wanted = (samples, min(least, samples), f" {known} ")
        verdict, *reply = self._ask("acquire", worker, *terms, *wanted, *first, *prefer)
        self._check_open(verdict, reply)
        if completed is not None:
            self._settled(completed.lease, verdict)
        if not reply:
            return None
        partition, start, end, token, epoch = map(int, reply[:5])
        lease = Lease(partition, start, end, worker, token, epoch, float(reply[5]), int(reply[6]))
        self._known[token] = lease
        return lease

    def renew(self, worker: str) -> None:
        self._call("renew", worker, self._terms.ttl_s)

    def leave(self, worker: str, *, within_s: float) -> None:
        self._call("leave", worker, self._terms.ttl_s, within_s)

    def complete(self, lease: Lease, *, trained: int, late: int, lost: int = 0) -> None:
        check_counts(lease, trained=trained, late=late, lost=lost)
        self._settle(lease, trained, late, lost, "")

    def release(self, lease: Lease, *, upto: int, trained: int, late: int, lost: int = 0) -> None:
        if not lease.start <= upto <= lease.end:
            raise ValueError(f"upto is {upto}, outside of [{lease.start}, {lease.end}]")
        check_counts(lease, trained=trained, late=late, lost=lost)
        self._settle(lease, trained, late, lost, upto)

    def take_turn(self, worker: str, *, every_s: float) -> bool:
        return bool(self._call("turn", worker, every_s, self._terms.turn_s)[0])

    def end_turn(self, worker: str, *, committed: bool = False) -> None:
        self._call("turn_end", worker, int(committed))

    def progress(self) -> Progress:
        state, books, workers = self._call("progress")
        totals = dict(_pairs(state))
        upper, ends, given_up = {}, {}, {}
        undone: list[tuple[int, int, int]] = []
        for name, text in _pairs(books):
            partition = int(name)
            offsets, returned, quarantined = text.split(";")
            upper[partition], ends[partition] = map(int, offsets.split()[:2])
            undone += [(partition, int(start), int(end)) for start, end in _RANGE.findall(returned)]
            if quarantined:
                given_up[partition] = tuple(sorted(map(_range, quarantined.split())))
        out = [
            _held(lease) for text in map(_text, workers) for lease in text.partition(";")[2].split(",")[:-1]
        ]
        undone += out
        return Progress(
            watermarks=watermarks(upper, [(partition, start) for partition, start, _ in undone]),
            ends=dict(sorted(ends.items())),
            epoch=int(totals["epoch"]),
            beyond=trained_beyond(upper, undone),
            # A counter exists from its first sample on.
            **{name: int(totals.get(name, 0)) for name in ("trained", "late", "repeated", "lost")},
            out=sum(end - start for _, start, end in out),
            quarantined=dict(sorted(given_up.items())),
            topic_id=totals.get("topic", ""),
            committed="committed" in totals,
        )

    def _settle(self, lease: Lease, *numbers: int | str) -> None:
        reply = self._ask("settle", lease.worker, lease.token, _as_text(lease), lease.epoch, *numbers)
        self._settled(lease, reply[0])

    def _settled(self, lease: Lease, verdict: bytes | str) -> None:
        self._known.pop(lease.token, None)
        if _text(verdict) == "lost":
            raise LeaseLost(lease)

    def _call(self, operation: str, *args: str | float) -> list[Any]:
        verdict, *rest = self._ask(operation, *args)
        self._check_open(verdict, rest)
        return rest

    def _check_open(self, verdict: bytes | str, rest: list[Any]) -> None:
        if _text(verdict) == "not-open":
            raise NotOpened(int(rest[0]) if rest[0] else None)

    def _ask(self, operation: str, *args: str | float) -> list[Any]:
        now = "" if self._now_s is None else repr(self._now_s())
        try:
            reply: list[Any] = self._scripts[operation](keys=self._names, args=[now, *args])
        except (RedisError, OSError) as error:
            raise LedgerUnavailable(address_of(self._client), str(error) or type(error).__name__) from error
        return reply


def _source(*parts: str) -> str:
    folder = files("services.stream").joinpath("lua")
    return "".join(folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts)


def _as_text(lease: Lease) -> str:
    """The lease as the scripts keep it behind its token."""
    return f"{lease.partition} {lease.start} {lease.end} {lease.lapses}"


def _held(text: str) -> tuple[int, int, int]:
    """Partition, start and end of a lease as a worker's record has it."""
    _token, partition, start, end, _lapses = map(int, text.split())
    return partition, start, end


def _range(text: str) -> tuple[int, int]:
    start, _, stop = text.partition("-")
    return int(start), int(stop)


def _text(raw: bytes | str) -> str:
    return raw.decode() if isinstance(raw, bytes) else raw


def _pairs(flat: Sequence[bytes | str]) -> list[tuple[str, str]]:
    """The fields and values of a hash, as a script returns them."""
    texts = [_text(raw) for raw in flat]
    return list(zip(texts[::2], texts[1::2], strict=True))
