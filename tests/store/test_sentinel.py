"""Redis behind Sentinel: the primary is found, and found again when another takes its place."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError

from services.control.errors import StateUnavailable
from services.embedded.guarded import GuardedProcess
from services.embedded.ports import free_ports
from services.embedded.redis import find_server
from services.settings.root import RedisSettings
from services.store.connect import address_of, connect, connect_sync
from services.store.errors import InvalidRedisUrl
from services.store.keys import Keys
from services.store.redis_state import RedisState
from services.stream.redis_ledger import RedisLedger
from shuffler.ledger import Terms
from tests.store.worlds import a_decision
from tests.waiting import eventually, eventually_async

SERVICE = "penstock"


class Watched:
    """A primary, its replica, and a sentinel that may promote the one when the other is gone."""

    def __init__(self, directory: Path) -> None:
        self.ports = free_ports(3)
        primary, replica, sentinel = self.ports
        self._directory = directory
        self.primary = self._started(
            "primary", "--port", str(primary), "--appendonly", "yes", "--repl-diskless-sync-delay", "0"
        )
        eventually(lambda: self._answers(primary), what="the primary")
        self.replica = self._started(
            "replica", "--port", str(replica), "--replicaof", "127.0.0.1", str(primary)
        )
        eventually(lambda: self._in_step(replica), what="the replica in step")
        conf = directory / "sentinel.conf"
        conf.write_text(
            f"port {sentinel}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary} 1\n"
            f"sentinel down-after-milliseconds {SERVICE} 300\n"
            f"sentinel failover-timeout {SERVICE} 2000\n",
            encoding="utf-8",
        )
        self.sentinel = self._started("sentinel", str(conf), "--sentinel")
        eventually(self._known, what="a sentinel that knows both")

    @property
    def settings(self) -> RedisSettings:
        # The first of the two sentinels is not there.
        return RedisSettings(url=f"redis+sentinel://127.0.0.1:1,127.0.0.1:{self.ports[2]}/{SERVICE}/3")

    def end(self) -> None:
        for process in (self.sentinel, self.replica, self.primary):
            process.stop()

    def _started(self, name: str, *options: str) -> GuardedProcess:
        home = self._directory / name
        home.mkdir()
        first = options[:1] if options[0].endswith(".conf") else ()
        command = [str(find_server()), *first, *options[len(first) :]]
        if not first:
            command += ["--dir", str(home), "--save", ""]
        process = GuardedProcess(command, log=home / "server.log")
        process.start()
        return process

    def _answers(self, port: int) -> bool:
        try:
            with Redis(port=port, socket_timeout=1) as client:
                return bool(client.ping())
        except RedisError:
            return False

    def _in_step(self, port: int) -> bool:
        try:
            with Redis(port=port, socket_timeout=1) as client:
                return bool(client.info("replication")["master_link_status"] == "up")
        except (RedisError, KeyError):
            return False

    def _known(self) -> bool:
        try:
            with Redis(port=self.ports[2], socket_timeout=1, decode_responses=True) as client:
                told = client.execute_command("SENTINEL", "MASTER", SERVICE)
        except RedisError:
            return False
        known = told if isinstance(told, dict) else dict(zip(told[::2], told[1::2], strict=True))
        return int(known["num-slaves"]) == 1


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.end()


async def test_a_controller_and_its_workers_go_on_with_the_new_primary(watched: Watched) -> None:
    keys = Keys("penstock")
    async with connect(watched.settings) as client:
        store = RedisState(client, keys)
        with connect_sync(watched.settings) as of_a_worker:
            ledger = RedisLedger(of_a_worker, keys, "clicks", Terms())
            ledger.open({0: 0})
            ledger.extend({0: 100})
            await store.commit(a_decision(1), fence=1)
            assert of_a_worker.wait(1, 5000) == 1, "the replica has it"

            os.kill(watched.primary.pid, signal.SIGKILL)

            async def committed() -> bool:
                try:
                    await store.commit(a_decision(2), fence=1)
                except StateUnavailable:
                    return False
                return True

            await eventually_async(committed, within_s=60, what="a commit to the new primary")
            assert [one.id for one in await store.decisions("clicks")] == ["clicks-2", "clicks-1"]
            assert ledger.progress().ends == {0: 100}
            assert of_a_worker.info("replication")["role"] == "master"


async def test_a_service_that_no_sentinel_knows_is_told(watched: Watched) -> None:
    url = watched.settings.url.replace(f"/{SERVICE}/", "/other/")
    async with connect(RedisSettings(url=url)) as client:
        with pytest.raises(StateUnavailable, match="other of the sentinels"):
            await RedisState(client, Keys("penstock")).load("clicks")
    assert address_of(client) == "other of the sentinels"


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://:secret@a:1",
        "redis+sentinel://:secret@/s",
        "redis+sentinel://:secret@a/s/db",
        "redis+sentinel://:secret@a/s?secret=1",
        "redis+sentinel://:secret@a:port/s",
    ],
)
def test_an_address_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidRedisUrl) as refused:
        connect_sync(RedisSettings.model_construct(url=url))

    assert "secret" not in str(refused.value)


def test_passwords_and_tls_reach_servers_and_sentinels() -> None:
    url = "rediss+sentinel://ann:p%40ss@a,b:7/s/2?sentinel_password=other"
    pool: Any = connect_sync(RedisSettings(url=url)).connection_pool
    given = pool.connection_kwargs
    asked = pool.sentinel_manager.sentinels[1].connection_pool

    assert (given["username"], given["password"], given["db"]) == ("ann", "p@ss", 2)
    assert asked.connection_kwargs["password"] == "other"  # noqa: S105 - of this test alone
    assert (asked.connection_kwargs["host"], asked.connection_kwargs["port"]) == ("b", 7)
    assert "SSL" in pool.connection_class.__name__
    assert "SSL" in asked.connection_class.__name__
