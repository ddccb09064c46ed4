"""A Kafka cluster inside this process: the brokers that librdkafka carries for its own tests.

They speak the real protocol on loopback to any client, need nothing but the confluent-kafka wheel
and are threads of this process, so that nothing can outlive its owner. What differs from Apache
Kafka, as tried:

- **A partition keeps about 5 MiB and then drops its oldest records without a word.** Whoever reads
  must notice that the log start passed its position: that is data loss.
- Asking for the metadata of a topic that is not there creates it, with four partitions. To ask
  whether a topic exists, list them all.
- There is no CreateTopics (hence `create_topic` here), no offsets for times, no delete-records, no
  describe-groups; `describe_topics` hangs. Earliest and latest offsets, commits without members
  and reading a group's offsets for named partitions work.
- Aborted transactions are visible, nothing is compacted, and a restart begins empty.
- How soon a record is delivered follows the consumer's `fetch.wait.max.ms`; set it to 5-20.
"""

from __future__ import annotations

import ctypes
import importlib.util
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from services.embedded.errors import EmbeddedError, NotInstalled, NotRunning, StartFailed

_PRODUCER = 0
_TOPIC_EXISTS = 36
_NO_ERROR = 0
_ERRORS_ONLY = b"3"


class EmbeddedKafka:
    """Brokers of librdkafka for as long as the context lasts.

    >>> with EmbeddedKafka(brokers=3) as kafka:
    ...     kafka.create_topic("clicks", partitions=6)
    ...     len(kafka.bootstrap.split(","))
    3
    """

    def __init__(self, *, brokers: int = 1) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster needs at least one broker, not {brokers}")
        self._brokers = brokers
        self._library: ctypes.CDLL | None = None
        self._client: int | None = None
        self._cluster: int | None = None

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT` of every broker, separated by commas. Raises NotRunning before the start."""
        library, cluster = self._running()
        addresses: bytes = library.rd_kafka_mock_cluster_bootstraps(cluster)
        return addresses.decode()

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers' ids."""
        return tuple(range(1, self._brokers + 1))

    def start(self) -> None:
        """Start the brokers. Does nothing when they run. Raises NotInstalled or StartFailed."""
        if self._cluster is not None:
            return
        library = _load()
        with _signals_blocked():
            self._library, self._client = library, _new_client(library)
            self._cluster = library.rd_kafka_mock_cluster_new(self._client, self._brokers)
        if self._cluster is None:
            self.stop()
            raise StartFailed(f"librdkafka could not start {self._brokers} broker(s)", log="")
        # An empty group forms at once, as on a broker with group.initial.rebalance.delay.ms=0.
        library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 0)

    def stop(self) -> None:
        """End the brokers and forget what they held. Does nothing when they were not started.

        The cluster goes before the client that carries its threads.
        """
        if self._library is not None:
            if self._cluster is not None:
                self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            if self._client is not None:
                self._library.rd_kafka_destroy(self._client)
        self._library = self._client = self._cluster = None

    def create_topic(self, name: str, partitions: int, *, replication: int | None = None) -> None:
        """Create a topic, replicated on every broker (three at most) unless said otherwise.

        Raises EmbeddedError when it is there already, or impossible.
        """
        library, cluster = self._running()
        copies = min(3, self._brokers) if replication is None else replication
        if partitions < 1 or not 1 <= copies <= self._brokers:  # librdkafka itself takes anything
            raise EmbeddedError(
                f"topic {name} cannot have {partitions} partition(s) in {copies} copies on "
                f"{self._brokers} broker(s); give at least 1 of each, and no more copies than brokers"
            )
        code = library.rd_kafka_mock_topic_create(cluster, name.encode(), partitions, copies)
        if code == _TOPIC_EXISTS:
            raise EmbeddedError(f"topic {name} exists already; choose another name")
        self._check(code, f"create topic {name} with {partitions} partition(s), {copies} copies")

    def set_broker_down(self, broker: int) -> None:
        """Close a broker's connections and accept no new ones. It keeps its records."""
        library, cluster = self._running()
        self._check(library.rd_kafka_mock_broker_set_down(cluster, broker), f"take broker {broker} down")

    def set_broker_up(self, broker: int) -> None:
        """Let a broker that is down accept connections again."""
        library, cluster = self._running()
        self._check(library.rd_kafka_mock_broker_set_up(cluster, broker), f"bring broker {broker} up")

    def _running(self) -> tuple[ctypes.CDLL, int]:
        if self._library is None or self._cluster is None:
            raise NotRunning("the embedded Kafka was not started, or has been stopped")
        return self._library, self._cluster

    def _check(self, code: int, what: str) -> None:
        if code != _NO_ERROR:
            library, _ = self._running()
            reason: bytes = library.rd_kafka_err2str(code)
            raise EmbeddedError(f"the embedded Kafka could not {what}: {reason.decode()}")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def find_library() -> Path:
    """The librdkafka in the confluent-kafka wheel. Raises NotInstalled.

    A confluent-kafka built from source uses the system's library instead, which is not looked for:
    two copies in one process would not share the cluster.
    """
    package = importlib.util.find_spec("confluent_kafka")
    if package is None or package.origin is None:
        raise NotInstalled("confluent-kafka is not installed; `pip install confluent-kafka`")
    beside = Path(package.origin).parent
    for place, pattern in (
        (beside.parent / "confluent_kafka.libs", "librdkafka*.so*"),  # Linux wheels
        (beside / ".dylibs", "librdkafka*.dylib"),  # macOS wheels
    ):
        for library in sorted(place.glob(pattern)):
            return library
    raise NotInstalled(
        f"no librdkafka beside {beside}: confluent-kafka was not installed from a wheel. "
        "Reinstall it with `pip install --force-reinstall --only-binary :all: confluent-kafka`, "
        "or use a Kafka of your own."
    )


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """For as long as threads are started: they inherit it, and never see a signal.

    The brokers' thread ends for good when a signal interrupts its wait, a child's death, say.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _load() -> ctypes.CDLL:
    """The library with the signature of every function used: ctypes would cut pointers to 32 bits."""
    import confluent_kafka  # noqa: F401, PLC0415 - first, so that its dependencies are loaded

    library = ctypes.CDLL(str(find_library()))
    pointer, text, number, code = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int
    signatures: dict[str, tuple[object, list[object]]] = {
        "rd_kafka_conf_new": (pointer, []),
        "rd_kafka_conf_set": (code, [pointer, text, text, text, ctypes.c_size_t]),
        "rd_kafka_conf_destroy": (None, [pointer]),
        "rd_kafka_new": (pointer, [number, pointer, text, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [pointer]),
        "rd_kafka_err2str": (text, [code]),
        "rd_kafka_mock_cluster_new": (pointer, [pointer, number]),
        "rd_kafka_mock_cluster_destroy": (None, [pointer]),
        "rd_kafka_mock_cluster_bootstraps": (text, [pointer]),
        "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_topic_create": (code, [pointer, text, number, number]),
        "rd_kafka_mock_broker_set_down": (code, [pointer, ctypes.c_int32]),
        "rd_kafka_mock_broker_set_up": (code, [pointer, ctypes.c_int32]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _new_client(library: ctypes.CDLL) -> int:
    """The client whose threads run the brokers. It connects nowhere, and must not complain of that."""
    said = ctypes.create_string_buffer(512)
    settings = library.rd_kafka_conf_new()
    if library.rd_kafka_conf_set(settings, b"log_level", _ERRORS_ONLY, said, len(said)) != _NO_ERROR:
        library.rd_kafka_conf_destroy(settings)
        raise StartFailed(f"librdkafka refused a setting: {said.value.decode()}", log="")
    client: int | None = library.rd_kafka_new(_PRODUCER, settings, said, len(said))
    if client is None:
        library.rd_kafka_conf_destroy(settings)
        raise StartFailed(f"librdkafka could not start: {said.value.decode()}", log="")
    return client
