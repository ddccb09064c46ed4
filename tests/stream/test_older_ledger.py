"""Mixed versions: newer workers go on with a ledger that older ones left, and train nothing twice.

The files below `documents` hold the keys of a ledger as earlier states of this project wrote them, in the
middle of work: two leases out, one given back in part, one commit made. Add one when the layout changes;
never change one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from redis import Redis

from services.settings.root import RedisSettings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.stream.redis_ledger import RedisLedger
from shuffler.lease import Lease
from tests.stream.conftest import TERMS, Time

FILES = sorted((Path(__file__).parent / "documents").glob("ledger-*.json"))
KEYS = Keys("penstock")
LEFT_AT_S = 1_000_000.0


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    with connect_sync(RedisSettings(url=redis_url)) as client:
        yield client


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def older(request: pytest.FixtureRequest, client: Redis) -> dict[str, Any]:
    """What was left, in Redis too."""
    found: dict[str, Any] = json.loads(request.param.read_text(encoding="utf-8"))
    for name, key in found["keys"].items():
        if key["type"] == "hash":
            client.hset(name, mapping=key["content"])
        else:
            client.zadd(name, {member: float(score) for member, score in key["content"].items()})
    return found


def ledger_at(client: Redis, time: Time) -> RedisLedger:
    return RedisLedger(client, KEYS, "clicks", TERMS, now_s=lambda: time.now_s)


def held(older: dict[str, Any]) -> list[Lease]:
    epoch = older["progress"]["epoch"]
    return [Lease(**one, epoch=epoch, expires_at_s=LEFT_AT_S + 10, lapses=0) for one in older["held"]]


def test_the_progress_of_older_workers_is_read(older: dict[str, Any], client: Redis) -> None:
    seen = ledger_at(client, Time(LEFT_AT_S)).progress()

    told = older["progress"]
    assert {str(partition): at for partition, at in seen.watermarks.items()} == told["watermarks"]
    assert (seen.trained, seen.late, seen.epoch) == (told["trained"], told["late"], told["epoch"])
    assert seen.committed


def test_a_worker_that_was_upgraded_in_place_completes_what_it_held(
    older: dict[str, Any], client: Redis
) -> None:
    ledger = ledger_at(client, Time(LEFT_AT_S + 1))

    for lease in held(older):
        ledger.complete(lease, trained=lease.end - lease.start, late=0)

    assert ledger.progress().trained == older["progress"]["trained"] + 30
    assert ledger.progress().watermarks == {0: 25, 1: 20}


@pytest.mark.parametrize("extra", [{}, {"of_a_later_release": "1"}], ids=["as it was", "with a newer field"])
def test_what_older_workers_leave_behind_is_trained_by_newer_ones_once(
    older: dict[str, Any], client: Redis, extra: dict[str, str]
) -> None:
    """The older workers are gone: their leases lapse, and each offset that was not trained is, once."""
    if extra:
        client.hset(KEYS.ledger("clicks", "state"), items=[part for pair in extra.items() for part in pair])
    time = Time(LEFT_AT_S + TERMS.ttl_s + 1)
    ledger = ledger_at(client, time)
    trained: Counter[tuple[int, int]] = Counter()
    # Nobody was heard for a while: the ledger waits for the older workers once more, then gives them up.
    for _ in range(int(TERMS.ttl_s) + 2):
        ledger.renew("new-1")
        time.pass_s(1.0)
        while (lease := ledger.acquire("new-1", samples=7, prefer=())) is not None:
            trained.update((lease.partition, offset) for offset in range(lease.start, lease.end))
            ledger.complete(lease, trained=lease.end - lease.start, late=0)

    before = {(0, offset) for offset in (*range(10), *range(20, 25))}
    everything = {(0, offset) for offset in range(100)} | {(1, offset) for offset in range(60)}
    assert set(trained) == everything - before
    assert set(trained.values()) == {1}
    assert ledger.progress().watermarks == {0: 100, 1: 60}
    for name, value in extra.items():
        kept = cast(bytes, client.hget(KEYS.ledger("clicks", "state"), name))
        assert kept == value.encode(), "a newer field was lost"
