"""A ledger of each kind, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from services.settings.root import RedisSettings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.stream.memory_ledger import MemoryLedger
from services.stream.ports import LeaseLedger
from services.stream.redis_ledger import RedisLedger
from shuffler.ledger import Terms

TERMS = Terms(ttl_s=10.0, patience_s=100.0, turn_s=10.0)


@dataclass
class Time:
    """Stands still until a test moves it."""

    now_s: float = 1_000_000.0

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass(frozen=True)
class LedgerUnderTest:
    """One ledger, as several processes see it: each call of `connect` is another process."""

    kind: str
    time: Time
    connect: Callable[[], LeaseLedger]

    def keep_alive(self, *workers: str, for_s: float) -> None:
        """Let time pass while these workers are heard."""
        ledger = self.connect()
        for _ in range(int(for_s)):
            for worker in workers:
                ledger.renew(worker)
            self.time.pass_s(1.0)


@pytest.fixture(params=["memory", "redis"])
def shared(request: pytest.FixtureRequest) -> Iterator[LedgerUnderTest]:
    """A ledger of each kind in turn."""
    time = Time()
    if request.param == "memory":
        only = MemoryLedger(TERMS, now_s=lambda: time.now_s)
        yield LedgerUnderTest("memory", time, lambda: only)
        return
    with connect_sync(RedisSettings(url=request.getfixturevalue("redis_url"))) as client:
        yield LedgerUnderTest(
            "redis",
            time,
            lambda: RedisLedger(client, Keys("test"), "clicks", TERMS, now_s=lambda: time.now_s),
        )
