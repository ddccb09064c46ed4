"""The ledger that all workers of a job share: one Lua script on Redis, atomic, by the server's clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

import redis
from redis.exceptions import RedisError

from services.store.connect import address_of
from services.store.keys import Keys
from services.stream.errors import LedgerUnavailable
from shuffler.errors import LeaseLost, NotOpened
from shuffler.lease import Lease, Progress
from shuffler.ledger import Terms, check_counts, trained_beyond, watermarks

_PARTS: Final = ("state", "partitions", "unleased", "waiting", "leases", "holders", "alive")
"""The keys of a ledger, in the order in which ledger.lua names them."""

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
        self._script = client.register_script(
            files("services.stream").joinpath("ledger.lua").read_text(encoding="utf-8")
        )
        self._known: dict[int, Lease] = {}

    def open(self, starts: Mapping[int, int], *, after_epoch: int = 0) -> None:
        self._call("open", after_epoch, *(number for pair in starts.items() for number in pair))

    def extend(self, ends: Mapping[int, int]) -> None:
        told = list(ends.items())
        for first in range(0, len(told), _AT_ONCE):
            pairs = told[first : first + _AT_ONCE]
            self._call("extend", *(number for pair in pairs for number in pair))

    def acquire(self, worker: str, *, samples: int, prefer: Sequence[int]) -> Lease | None:
        if samples < 1:
            raise ValueError(f"samples is {samples}; a lease holds at least one")
        known = " ".join(str(token) for token in list(self._known))
        reply = self._call(
            "acquire", worker, self._terms.ttl_s, self._terms.patience_s, samples, f" {known} ", *prefer
        )
        if not reply:
            return None
        partition, start, end, token, epoch = map(int, reply[:5])
        lease = Lease(partition, start, end, worker, token, epoch, expires_at_s=float(reply[5]))
        self._known[token] = lease
        return lease

    def renew(self, worker: str) -> None:
        self._call("renew", worker, self._terms.ttl_s)

    def complete(self, lease: Lease, *, trained: int, late: int, lost: int = 0) -> None:
        check_counts(lease, trained=trained, late=late, lost=lost)
        self._settle("complete", lease, trained, late, lost)

    def release(self, lease: Lease, *, upto: int, trained: int, late: int, lost: int = 0) -> None:
        if not lease.start <= upto <= lease.end:
            raise ValueError(f"upto is {upto}, outside of [{lease.start}, {lease.end}]")
        check_counts(lease, trained=trained, late=late, lost=lost)
        self._settle("release", lease, trained, late, lost, upto)

    def take_turn(self, worker: str, *, every_s: float) -> bool:
        return bool(self._call("turn", worker, every_s, self._terms.turn_s)[0])

    def end_turn(self, worker: str) -> None:
        self._call("turn_end", worker)

    def progress(self) -> Progress:
        state, books, leases = self._call("progress")
        totals = dict(_pairs(state))
        upper, ends = {}, {}
        undone: list[tuple[int, int, int]] = []
        for name, value in _pairs(books):
            kind, partition = name[0], int(name[2:])
            if kind == "n":
                upper[partition] = int(value)
            elif kind == "e":
                ends[partition] = int(value)
            else:
                ranges = (text.partition("-") for text in value.split())
                undone += [(partition, int(start), int(end)) for start, _, end in ranges]
        for text in map(_text, leases):
            partition, start, end = map(int, text.split()[:3])
            undone.append((partition, start, end))
        return Progress(
            watermarks=watermarks(upper, [(partition, start) for partition, start, _ in undone]),
            ends=dict(sorted(ends.items())),
            epoch=int(totals["epoch"]),
            beyond=trained_beyond(upper, undone),
            # A counter exists from its first sample on.
            **{name: int(totals.get(name, 0)) for name in ("trained", "late", "repeated", "lost")},
        )

    def _settle(self, operation: str, lease: Lease, *numbers: int) -> None:
        text = f"{lease.partition} {lease.start} {lease.end} {lease.worker}"
        verdict = self._ask(operation, lease.token, lease.epoch, text, lease.worker, *numbers)[0]
        self._known.pop(lease.token, None)
        if _text(verdict) == "lost":
            raise LeaseLost(lease)

    def _call(self, operation: str, *args: str | float) -> list[Any]:
        verdict, *rest = self._ask(operation, *args)
        if _text(verdict) == "not-open":
            raise NotOpened(int(rest[0]) if rest[0] else None)
        return rest

    def _ask(self, operation: str, *args: str | float) -> list[Any]:
        now = "" if self._now_s is None else repr(self._now_s())
        try:
            reply: list[Any] = self._script(keys=self._names, args=[operation, now, *args])
        except (RedisError, OSError) as error:
            raise LedgerUnavailable(address_of(self._client), str(error) or type(error).__name__) from error
        return reply


def _text(raw: bytes | str) -> str:
    return raw.decode() if isinstance(raw, bytes) else raw


def _pairs(flat: Sequence[bytes | str]) -> list[tuple[str, str]]:
    """The fields and values of a hash, as a script returns them."""
    texts = [_text(raw) for raw in flat]
    return list(zip(texts[::2], texts[1::2], strict=True))
