"""What only the ledger on Redis must do: the network loses answers, the server has its own clock."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from services.settings.root import RedisSettings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.stream.errors import LedgerUnavailable
from services.stream.redis_ledger import RedisLedger
from shuffler.ledger import Terms
from tests.waiting import eventually


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    with connect_sync(RedisSettings(url=redis_url)) as client:
        yield client


class LossyLedger(RedisLedger):
    """Its commands reach the server; the next answer does not come back."""

    lossy = False

    def _ask(self, operation: str, *args: str | float) -> list[Any]:
        answer = super()._ask(operation, *args)
        if self.lossy:
            self.lossy = False
            raise LedgerUnavailable("nowhere", "timed out")
        return answer


def test_a_lease_whose_answer_was_lost_is_given_again(client: Redis) -> None:
    ledger = LossyLedger(client, Keys("test"), "clicks", Terms())
    ledger.open({0: 0})
    ledger.extend({0: 30})
    known = ledger.acquire("a", samples=10, prefer=())
    ledger.lossy = True
    with pytest.raises(LedgerUnavailable):
        ledger.acquire("a", samples=10, prefer=())

    again = ledger.acquire("a", samples=10, prefer=())
    then = ledger.acquire("a", samples=10, prefer=())

    assert known is not None
    assert again is not None
    assert then is not None
    assert [(lease.start, lease.end) for lease in (known, again, then)] == [(0, 10), (10, 20), (20, 30)]


def test_a_completion_whose_answer_was_lost_may_be_repeated(client: Redis) -> None:
    ledger = LossyLedger(client, Keys("test"), "clicks", Terms())
    ledger.open({0: 0})
    ledger.extend({0: 10})
    lease = ledger.acquire("a", samples=10, prefer=())
    assert lease is not None
    ledger.lossy = True
    with pytest.raises(LedgerUnavailable):
        ledger.complete(lease, trained=10, late=0)

    ledger.complete(lease, trained=10, late=0)

    assert ledger.progress().trained == 10


def test_leases_lapse_by_the_servers_clock(client: Redis) -> None:
    ledger = RedisLedger(client, Keys("test"), "clicks", Terms(ttl_s=0.3))
    ledger.open({0: 0})
    ledger.extend({0: 10})
    lease = ledger.acquire("silent", samples=10, prefer=())
    assert lease is not None
    assert lease.expires_at_s == pytest.approx(time.time() + 0.3, abs=30)

    again = eventually(lambda: ledger.acquire("other", samples=10, prefer=()), what="the lease lapses")

    assert again is not None
    assert again.start == 0


def test_two_jobs_and_two_prefixes_do_not_meet(client: Redis) -> None:
    ledgers = [
        RedisLedger(client, Keys(prefix), job, Terms())
        for prefix, job in (("one", "clicks"), ("one", "views"), ("two", "clicks"))
    ]
    for number, ledger in enumerate(ledgers):
        ledger.open({0: 0})
        ledger.extend({0: number + 1})

    assert [ledger.progress().ends for ledger in ledgers] == [{0: 1}, {0: 2}, {0: 3}]


def test_thousands_of_partitions_fit_into_one_ledger(client: Redis) -> None:
    ledger = RedisLedger(client, Keys("test"), "clicks", Terms())
    everything = range(9_000)  # more than Lua unpacks at once
    ledger.open(dict.fromkeys(everything, 0))
    ledger.extend({partition: partition + 1 for partition in everything})

    lease = ledger.acquire("a", samples=10, prefer=range(8_500))

    assert lease is not None
    assert lease.partition == 8_499
    assert len(ledger.progress().watermarks) == len(everything)


def test_no_trace_is_left_of_workers_that_came_and_went(client: Redis) -> None:
    now_s = 1_000_000.0
    ledger = RedisLedger(client, Keys("test"), "clicks", Terms(ttl_s=10.0), now_s=lambda: now_s)
    ledger.open({0: 0})
    for number in range(50):
        ledger.extend({0: number + 1})
        lease = ledger.acquire(f"worker-{number}", samples=1, prefer=())
        assert lease is not None
        ledger.complete(lease, trained=1, late=0)
        now_s += 1.0

    ledger.acquire("last", samples=1, prefer=())

    assert client.hlen(Keys("test").ledger("clicks", "workers")) <= 11


def test_redis_away_is_named_without_its_password() -> None:
    with connect_sync(RedisSettings(url="redis://:hunter2@127.0.0.1:1/0", timeout_s=0.5)) as nowhere:
        ledger = RedisLedger(nowhere, Keys("test"), "clicks", Terms())

        with pytest.raises(LedgerUnavailable, match=r"127\.0\.0\.1:1") as refusal:
            ledger.progress()

    assert "hunter2" not in str(refusal.value)
