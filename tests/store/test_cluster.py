"""A server in cluster mode refuses any command or script whose keys lie in different slots: ours never do.

One node holds all slots here: nothing is redirected, which Penstock would not follow (docs/operations.md).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import RedisError, ResponseError

from services.access.role import Role
from services.access.token import Token
from services.control.actuation import Outcome, Settlement
from services.control.types import PoolResize
from services.embedded.guarded import GuardedProcess
from services.embedded.ports import free_ports
from services.embedded.redis import find_server
from services.meter.history import Resolution
from services.meter.redis_archive import RedisArchive
from services.settings import JobSettings
from services.settings.root import RedisSettings
from services.store.connect import connect, connect_sync
from services.store.job_record import JobRecord
from services.store.jobs import ABSENT, RedisJobs, Trace
from services.store.keys import Keys
from services.store.leader import RedisLeadership
from services.store.redis_state import RedisState
from services.store.reports import RedisReports, ReportWriter
from services.store.snapshots import RedisSnapshots
from services.store.tokens import RedisTokens
from services.store.wishes import RedisWishes
from services.stream.redis_ledger import _SCRIPTS, RedisLedger
from services.trainer.ps.directory import RedisDirectory
from shuffler.ledger import Terms
from tests.store.worlds import a_decision, a_report
from tests.waiting import eventually

KEYS = Keys("penstock")
TERMS = Terms(ttl_s=10.0, patience_s=100.0, turn_s=10.0)


def _whole(port: int) -> bool:
    """Whether the cluster's only node answers for every slot; it is told to when it is new."""
    with Redis(port=port, socket_timeout=5) as client:
        try:
            if client.execute_command("CLUSTER INFO")["cluster_slots_assigned"] == "0":
                client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            return bool(client.set("probe", "1"))
        except RedisError:
            return False


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home: Path = tmp_path_factory.mktemp("cluster")
    port, bus = free_ports(2)  # a bus of its own choice is 10,000 further on, which need not be a port
    command = [str(find_server()), "--port", str(port), "--cluster-enabled", "yes", "--save", ""]
    command += ["--cluster-port", str(bus), "--dir", str(home)]
    process = GuardedProcess(command, log=home / "server.log")
    process.start()
    try:
        eventually(lambda: _whole(port), within_s=120, what="a cluster of one node")
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.stop()


@pytest.fixture
async def client(url: str) -> AsyncIterator[AsyncRedis]:
    async with connect(RedisSettings(url=url)) as client:
        await client.flushall()
        yield client


async def test_the_server_refuses_keys_of_different_slots(client: AsyncRedis) -> None:
    with pytest.raises(ResponseError, match="same slot"):
        await client.mget([KEYS.state("clicks"), KEYS.state("views")])


async def test_state_decisions_and_the_trail_are_written_together(client: AsyncRedis) -> None:
    store = RedisState(client, KEYS)

    await store.commit(a_decision(1), fence=1)
    await store.settle("clicks", Settlement("clicks-1", 1_001.0, Outcome.DONE))

    assert (await store.load("clicks")).sequence == 1
    assert [one.outcome for one in await store.actuations("clicks")] == [Outcome.DONE]


async def test_jobs_tokens_and_the_audit_log_are_written_together(client: AsyncRedis) -> None:
    jobs, tokens = RedisJobs(client, KEYS), RedisTokens(client, KEYS)
    record = JobRecord(name="clicks", settings=JobSettings(topic="clicks"))
    token, _ = Token.mint(name="ann", role=Role.ADMIN, now_s=1.0)

    stored = await jobs.put(record, expected=ABSENT, trace=Trace(audit=b"{}", event=b"{}"))
    await tokens.keep(token, audit=b"{}")

    assert await jobs.every() == {"clicks": stored}
    assert await tokens.revoke(token.id, audit=b"{}")
    assert await client.xlen(KEYS.audit()) == 3


async def test_one_leads_renews_and_lets_go(client: AsyncRedis) -> None:
    leadership = RedisLeadership(client, KEYS, ttl_s=10.0)

    await leadership.attempt()
    first = leadership.token()
    await leadership.attempt()

    assert first is not None
    assert leadership.token() == first
    await leadership.release()
    assert await client.get(KEYS.leader()) is None


async def test_reports_wishes_snapshots_and_past_traffic_are_kept(client: AsyncRedis, url: str) -> None:
    with ReportWriter(url, prefix=KEYS.prefix, job="clicks") as writer:
        writer.write(a_report())
        assert await RedisReports(client, KEYS, "clicks").reports() == (a_report(),)
        writer.forget()
    await RedisWishes(client, KEYS).publish("clicks", PoolResize(3, decision_id="clicks-1", fence=1))
    await RedisSnapshots(client, KEYS).put("clicks", b"{}")
    archive, minutes = RedisArchive(client, KEYS, "clicks"), Resolution(60.0, 3 * 86_400.0)
    await archive.save(minutes, 0, np.ones(3000, np.float32))
    _, found = await archive.load(minutes, now_s=3000 * 60.0)

    assert np.nansum(found) == 3000


def test_every_script_of_the_ledger_stays_within_the_jobs_slot(url: str) -> None:
    with connect_sync(RedisSettings(url=url)) as client:
        ledger = RedisLedger(client, KEYS, "clicks", TERMS)
        ledger.open({0: 0, 1: 0})
        ledger.extend({0: 100, 1: 100})
        first = ledger.acquire("w-1", samples=10, prefer=())
        second = ledger.acquire("w-1", samples=10, prefer=())
        assert first is not None
        assert second is not None
        ledger.renew("w-1")
        ledger.leave("w-1", within_s=9.0)
        ledger.complete(first, trained=10, late=0)
        ledger.release(second, upto=second.start, trained=0, late=0)
        assert ledger.take_turn("w-1", every_s=1.0)
        ledger.end_turn("w-1", committed=True)
        ledger.reset({0: 0, 1: 0}, {0: 100, 1: 100}, topic_id="another")

        assert ledger.progress().watermarks == {0: 0, 1: 0}
        known = cast(list[bool], client.script_exists(*(script.sha for script in ledger._scripts.values())))
        assert dict(zip(ledger._scripts, known, strict=True)) == dict.fromkeys(_SCRIPTS, True), (
            "one was not tried"
        )


def test_shards_are_found_and_slots_moved(url: str) -> None:
    with connect_sync(RedisSettings(url=url)) as client:
        directory = RedisDirectory(client, KEYS, "clicks")

        directory.slots(2)
        directory.give(0, to=1, shards=2)

        assert directory.slots(2).shard_of[0] == 1
