"""The ACLs of docs/security.md are enough for every component, on servers that refuse everything else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from redis import Redis

from services.embedded.apache import ApacheKafka
from services.embedded.ports import free_ports
from tests.deploy.queries import DEPLOY
from tests.servers.kafka import lacking
from tests.waiting import eventually

pytestmark = [pytest.mark.real_broker, pytest.mark.e2e, pytest.mark.timeout(240)]

SAMPLES = 500
_ROW = re.compile(
    r"^\| (controller|worker|shard|traffic) \| (Describe|Read|Write) \| (topic|group) `([\w.-]+)` \|$", re.M
)


def documented() -> list[AclBinding]:
    """The rows of the table, as bindings."""
    rows = _ROW.findall((DEPLOY.parent / "docs" / "security.md").read_text(encoding="utf-8"))
    return [
        AclBinding(
            ResourceType[kind.upper()],
            name,
            ResourcePatternType.LITERAL,
            f"User:{who}",
            "*",
            AclOperation[operation.upper()],
            AclPermissionType.ALLOW,
        )
        for who, operation, kind, name in rows
    ]


def login(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-password",
    }


def broker_settings() -> dict[str, str]:
    known = ("admin", "controller", "worker", "shard", "traffic")
    users = " ".join(f'user_{user}="{user}-password"' for user in known)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            f'{module} username="admin" password="admin-password" {users};'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",  # the brokers' own listener has no names
    }


@pytest.fixture
def guarded() -> Iterator[ApacheKafka]:
    reason = lacking("apache")
    if reason is not None:
        pytest.skip(f"an Apache Kafka with ACLs: {reason}")
    with ApacheKafka(settings=broker_settings(), client=login("admin")) as server:
        server.create_topic("clicks", 2)
        server.create_topic("clicks.dead-letter", 1)
        admin = server.admin()
        for made in admin.create_acls(documented()).values():
            made.result()
        yield server


@contextmanager
def running(
    directory: Path, who: str, *command: str, env: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A command of Penstock as this principal; its log is in the directory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    with (directory / f"{who}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "services.cli.main", *command],
            env={**kept, **env},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)


def committed(server: ApacheKafka) -> int:
    """Offsets that the group has committed, all partitions together."""
    reader = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": "penstock-clicks", **login("admin")}
    )
    try:
        found = reader.committed([TopicPartition("clicks", number) for number in range(2)], timeout=10)
    finally:
        reader.close()
    return sum(max(0, one.offset) for one in found)


def put_aside(server: ApacheKafka) -> int:
    """Samples that the worker could not read."""
    reader = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "nobody", **login("admin")})
    try:
        return int(reader.get_watermark_offsets(TopicPartition("clicks.dead-letter", 0), timeout=10)[1])
    finally:
        reader.close()


def poison(server: ApacheKafka) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap, **login("admin")})
    producer.produce("clicks", b"not a sample")
    assert producer.flush(30) == 0


@pytest.fixture
def restricted_redis(redis_url: str) -> Iterator[str]:
    """The URL of a user with the rights of the documented line, and no others."""
    page = (DEPLOY.parent / "docs" / "security.md").read_text(encoding="utf-8")
    (rules,) = re.findall(r"^user penstock (.*)$", page, re.M)
    with Redis.from_url(redis_url) as administrator:
        administrator.execute_command("ACL", "SETUSER", "penstock", *rules.split())
        yield redis_url.replace("redis://", "redis://penstock:PASSWORD@")
        administrator.execute_command("ACL", "DELUSER", "penstock")


def test_the_documented_acls_are_enough_for_all(
    guarded: ApacheKafka, restricted_redis: str, tmp_path: Path
) -> None:
    port, operations = free_ports(2)
    config = tmp_path / "penstock.yaml"
    parameters = {"directory": str(tmp_path / "parameters"), "snapshot_s": 0.5, "rows_max": 1000}
    job = {
        "topic": "clicks",
        "pool": {"kind": "recommend"},
        "worker": {"device": "numpy"},
        "parameters": parameters,
    }
    api = {"port": port, "operations_port": operations}
    config.write_text(yaml.safe_dump({"jobs": {"clicks": job}, "api": api, "controller": {"tick_s": 0.5}}))

    def env(who: str) -> dict[str, str]:
        return {
            "PENSTOCK_KAFKA__BOOTSTRAP": guarded.bootstrap,
            "PENSTOCK_KAFKA__OPTIONS": json.dumps(login(who)),
            "PENSTOCK_REDIS__URL": restricted_redis,
        }

    def metric(name: str) -> float:
        address = f"http://127.0.0.1:{operations}/metrics"
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return -1.0
        found = re.search(rf'^penstock_{name}\{{job="clicks"\}} (\S+)$', text, re.M)
        return float(found[1]) if found else -1.0

    at = ("--config", str(config))
    sending = ["traffic", "--topic", "clicks", "--samples", str(SAMPLES), "--rate", "500"]
    sending += [f"--kafka-option={name}={value}" for name, value in login("traffic").items()]
    serving = ("shard", *at, "--job", "clicks")
    poison(guarded)
    with (
        running(tmp_path, "controller", "serve", *at, env=env("controller")),
        running(tmp_path, "shard", *serving, env=env("shard")) as shard,
        running(
            tmp_path, "worker", "worker", *at, "--job", "clicks", "--worker-id", "w-1", env=env("worker")
        ),
        running(
            tmp_path, "traffic", *sending, env={"PENSTOCK_KAFKA__BOOTSTRAP": guarded.bootstrap}
        ) as traffic,
    ):
        assert traffic.wait(timeout=90) == 0, (tmp_path / "traffic.log").read_text()
        eventually(
            lambda: committed(guarded) == SAMPLES + 1 and metric("lag_samples") == 0,
            within_s=90,
            every_s=0.5,
            what="every sample trained, committed and seen to be",
        )
        assert put_aside(guarded) == 1
        shard.kill()
        shutil.rmtree(tmp_path / "parameters")
        with running(tmp_path, "shard", *serving, env=env("shard")):
            log = tmp_path / "shard.log"
            eventually(lambda: "ledger_rewound" in log.read_text(), within_s=60, what="the shard's rewind")
            assert "snapshot_postponed" not in log.read_text()
