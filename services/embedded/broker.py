"""One broker of an Apache Kafka cluster: its files, its settings, its process."""

from __future__ import annotations

import base64
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from services.embedded.errors import NotRunning
from services.embedded.guarded import GuardedProcess
from services.embedded.jars import class_archive
from services.embedded.ports import LOOPBACK

# One compiler tier and the serial collector: serving after some 4 s, with 360 MB.
_JAVA_OPTIONS = (
    "-Xms64m",
    "-Xmx384m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xlog:cds*=off",  # a line for every class that cannot be kept
    "-XX:-UsePerfData",  # it would leave files in the system's temporary directory
    "-Dorg.apache.logging.log4j.level=WARN",
)

# Formatting writes meta.properties last: a broker that has it starts again without. The first on a machine
# leaves the classes that it loaded (20 MB) to all others, which take some 40 % less CPU time to start.
# `exec` keeps the process id, and with it the guardian's hold on the process.
_FORMAT_THEN_RUN = """
if [ ! -e "$2/data/meta.properties" ]; then
  "$1" "@$2/format.args" || exit
  if [ -e "$2/classes.jsa" ]; then
    { cp "$2/classes.jsa" "$3.$$" && mv -f "$3.$$" "$3"; } || rm -f "$3.$$"
  fi
fi
exec "$1" "@$2/run.args"
"""


@dataclass(slots=True)
class Broker:
    """A broker that is also a controller of its cluster. `directory` is the whole cluster's."""

    node: int
    port: int
    controller_port: int
    directory: Path
    _process: GuardedProcess | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def process(self) -> GuardedProcess:
        """Raises NotRunning before `prepare`."""
        if self._process is None:
            raise NotRunning(f"Kafka broker {self.node} was not started")
        return self._process

    def prepare(
        self,
        java: Path,
        jars: Path,
        cluster_id: str,
        voters: str,
        *,
        nodes: int,
        settings: Mapping[str, str],
    ) -> None:
        """Write the broker's files. It formats its storage itself when it starts."""
        home = self.directory / f"broker-{self.node}"
        home.mkdir()
        properties = home / "server.properties"
        chosen = {**self._properties(home, voters, nodes=nodes), **settings}
        properties.write_text(
            "".join(f"{name}={value}\n" for name, value in chosen.items()), encoding="utf-8"
        )
        archive = class_archive(java)
        options = [*_JAVA_OPTIONS, f"-Djava.io.tmpdir={home}", "-cp", f"{jars}/*"]
        form = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)]
        _write_arguments(home / "format.args", [_kept_or_keeping(archive, home), *options, *form])
        _write_arguments(home / "run.args", [_kept(archive), *options, "kafka.Kafka", str(properties)])
        self._process = GuardedProcess(
            ["/bin/sh", "-c", _FORMAT_THEN_RUN, "broker", str(java), str(home), str(archive)],
            log=home / "server.log",
            remove=[self.directory],
            grace_s=0.0,  # nothing to flush: the data go with the broker
        )

    def start(self) -> None:
        """Start, or start again on the same port and data."""
        self.process.start()

    def listens(self) -> bool:
        """Whether the port accepts connections."""
        try:
            socket.create_connection((LOOPBACK, self.port), timeout=1.0).close()
        except OSError:
            return False
        return True

    def _properties(self, home: Path, voters: str, *, nodes: int) -> dict[str, str]:
        """Small and quick: few internal partitions, groups that form at once, crashes seen in 6 s."""
        copies, in_sync = str(min(3, nodes)), str(min(2, nodes))
        return {
            "process.roles": "broker,controller",
            "node.id": str(self.node),
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{LOOPBACK}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(home / "data"),
            "auto.create.topics.enable": "false",
            "default.replication.factor": copies,
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
            "group.initial.rebalance.delay.ms": "0",
            "broker.heartbeat.interval.ms": "1000",
            "broker.session.timeout.ms": "6000",
        }


def new_cluster_id() -> str:
    """A random cluster id as Kafka makes them: 22 characters, none that reads as an option.

    >>> len(new_cluster_id())
    22
    """
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not made.startswith("-"):
            return made


def _kept(archive: Path) -> str:
    return f"-XX:SharedArchiveFile={archive}"


def _kept_or_keeping(archive: Path, home: Path) -> str:
    return _kept(archive) if archive.is_file() else f"-XX:ArchiveClassesAtExit={home}/classes.jsa"


def _write_arguments(path: Path, arguments: list[str]) -> None:
    """A file for `java @file`, each argument quoted, so that paths may hold spaces."""
    quoted = (argument.replace("\\", "\\\\").replace('"', '\\"') for argument in arguments)
    path.write_text("".join(f'"{argument}"\n' for argument in quoted), encoding="utf-8")
