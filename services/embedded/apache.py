"""A real Apache Kafka (KRaft) without Docker, where Java 17 and Maven are at hand.

One broker for most purposes, three for what happens when one of them dies. Each is a Java process
under a guardian; all of their files lie in one temporary directory that goes with them. Topics are
created by asking for them, never by mentioning them.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from services.embedded.broker import Broker, new_cluster_id
from services.embedded.errors import EmbeddedError, NotRunning, StartFailed
from services.embedded.jars import KAFKA_VERSION, fetch_jars, missing, require_java
from services.embedded.ports import free_ports

__all__ = ["KAFKA_VERSION", "ApacheKafka", "missing"]

_START_TRIES = 3
_READY_WITHIN_S = 90.0


class ApacheKafka:
    """One broker or three for as long as the context lasts. The first start fetches the jars.

    Brokers are counted from 1. Ending the context kills them: their data go with them, so there is
    nothing to flush.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        client: Mapping[str, str] | None = None,
    ) -> None:
        """`client` is what a client has to say besides the address, where `settings` secure the brokers."""
        if brokers not in (1, 3):
            raise ValueError(f"a cluster of 1 or 3 brokers can be started, not {brokers}")
        self._count = brokers
        self._settings = dict(settings or {})
        self._client = dict(client or {})
        self._directory: Path | None = None
        self._brokers: dict[int, Broker] = {}

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT` of every broker, separated by commas. Raises NotRunning before the start."""
        return ",".join(broker.address for broker in self._running().values())

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers' ids, dead ones included."""
        return tuple(range(1, self._count + 1))

    @property
    def directory(self) -> Path:
        """Where the brokers' data and logs lie while they run. Raises NotRunning before the start."""
        if self._directory is None:
            raise NotRunning("this Apache Kafka was not started, or has been stopped")
        return self._directory

    def start(self) -> None:
        """Start all brokers and wait until each of them serves. Does nothing when they were started.

        Raises NotInstalled or StartFailed. When somebody was quicker to take a port that was free,
        others are tried.
        """
        if self._brokers:
            return
        java, jars = require_java(), fetch_jars()
        for attempt in range(1, _START_TRIES + 1):
            try:
                self._start_on_free_ports(java, jars)
            except StartFailed as error:
                self.stop()
                if attempt == _START_TRIES or "already in use" not in error.log:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return

    def stop(self) -> None:
        """End all brokers and remove their data. Does nothing when they were not started."""
        for broker in self._brokers.values():
            broker.process.let_go()  # all at once, then wait for each
        for broker in self._brokers.values():
            broker.process.stop()
        if self._directory is not None:  # a broker that died by itself left this to us
            shutil.rmtree(self._directory, ignore_errors=True)
        self._brokers, self._directory = {}, None

    def create_topic(
        self,
        name: str,
        partitions: int,
        *,
        replication: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, replicated on every broker unless said otherwise. Raises EmbeddedError."""
        copies = self._count if replication is None else replication
        topic = NewTopic(
            name, num_partitions=partitions, replication_factor=copies, config=dict(config or {})
        )
        admin = self.admin()  # held until the answer: a client that is dropped cancels its requests
        try:
            admin.create_topics([topic], operation_timeout=30, request_timeout=30)[name].result()
        except KafkaException as error:
            raise EmbeddedError(f"topic {name} could not be created: {error.args[0].str()}") from error

    def admin(self) -> AdminClient:
        """A client for administration. Hold it until its futures are done."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2, **self._client})

    def kill_broker(self, broker: int) -> None:
        """SIGKILL one broker, as a crash would. Returns when its process is gone."""
        process = self._running()[broker].process
        if process.alive:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(within_s=30.0)

    def start_broker(self, broker: int) -> None:
        """Start a dead broker again on its port and data, and wait until it serves."""
        self._running()[broker].start()
        self._await_ready(set(self.brokers) - set(self.dead_brokers()) | {broker})

    def dead_brokers(self) -> tuple[int, ...]:
        """The brokers whose process has ended."""
        return tuple(node for node, broker in self._brokers.items() if not broker.process.alive)

    def pid(self, broker: int) -> int:
        """The process id of one broker."""
        return self._running()[broker].process.pid

    def _start_on_free_ports(self, java: Path, jars: Path) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-kafka-"))
        ports = free_ports(2 * self._count)
        voters = ",".join(f"{node}@127.0.0.1:{ports[self._count + node - 1]}" for node in self.brokers)
        cluster_id = new_cluster_id()
        for node in self.brokers:
            broker = Broker(
                node=node,
                port=ports[node - 1],
                controller_port=ports[self._count + node - 1],
                directory=self._directory,
            )
            broker.prepare(java, jars, cluster_id, voters, nodes=self._count, settings=self._settings)
            self._brokers[node] = broker
            broker.start()
        self._await_ready(set(self.brokers))

    def _await_ready(self, wanted: set[int]) -> None:
        """Until the metadata list every wanted broker, which they do not before it serves."""
        deadline_s = time.monotonic() + _READY_WITHIN_S
        while not all(self._brokers[node].listens() for node in wanted):
            self._check_started(wanted, deadline_s)
        admin = self.admin()
        while not wanted <= _listed(admin):
            self._check_started(wanted, deadline_s)

    def _check_started(self, wanted: set[int], deadline_s: float) -> None:
        for node in sorted(wanted):
            process = self._brokers[node].process
            if not process.alive:
                raise StartFailed(
                    f"Kafka broker {node} ended with exit code {process.exit_code} at start",
                    log=process.log_tail(),
                )
        if time.monotonic() > deadline_s:
            log = self._brokers[min(wanted)].process.log_tail()
            raise StartFailed(f"Kafka did not serve within {_READY_WITHIN_S:g} s", log=log)
        time.sleep(0.05)

    def _running(self) -> dict[int, Broker]:
        if not self._brokers:
            raise NotRunning("this Apache Kafka was not started, or has been stopped")
        return self._brokers

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _listed(admin: AdminClient) -> set[int]:
    """The brokers that the cluster says are serving; none while nobody answers."""
    try:
        return set(admin.list_topics(timeout=2).brokers)
    except KafkaException:
        return set()
