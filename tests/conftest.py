"""The servers that the tests share. They are started when first asked for, once for the whole run.

| fixture        | what a test gets                                                              |
|----------------|-------------------------------------------------------------------------------|
| `kafka`        | a Kafka: `.bootstrap`, `.create_topic`, `.new_topic`, `.admin()`, `.kind`      |
| `every_kafka`  | the same, the test running once on each kind: embedded, Apache, container      |
| `topic`        | makes topics of its own on `kafka`: `topic(partitions=4)` gives the name       |
| `group`        | the name of a consumer group that nobody else uses                            |
| `redis`        | a Redis: `.url`, `.kind`                                                      |
| `redis_url`    | a database of its own on it, empty before and after                           |
| `redis_prefix` | a key prefix that nobody else uses                                            |

Nothing heavy is imported up here: collecting the doctests of the packages must stay quick.
"""

from __future__ import annotations

import gc
import itertools
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.servers.kafka import (
    KINDS,
    KafkaChoice,
    Kafkas,
    KafkaUnderTest,
    Kind,
    TopicFactory,
    choose_kafka,
    lacking,
    unique_name,
)
from tests.servers.redis import RedisChoice, RedisUnderTest, choose_redis, start_redis

pytest_plugins = ("pytester", "tests.servers.skips")

# As make sets it, for whoever runs pytest by hand: beside other work, threads of BLAS wait for one another,
# and training takes many times as long. It is read when numpy is first imported: nobody has done so yet.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Properties are not timed: a busy machine is no counterexample.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

_KAFKA = pytest.StashKey[KafkaChoice]()
_SERVERS = pytest.StashKey[ExitStack]()
_REDIS = pytest.StashKey[RedisChoice]()
_databases = itertools.cycle(range(16))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("penstock", "the servers that the tests use")
    group.addoption("--kafka", metavar="KIND", help="embedded, apache, container or HOST:PORT")
    group.addoption("--redis", metavar="KIND", help="embedded, container or a URL")


def pytest_configure(config: pytest.Config) -> None:
    # Plain tracebacks, as in production: structlog's own default spells out every local variable, which
    # takes a minute where a simulated world is among them.
    renderer = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[structlog.processors.add_log_level, renderer])
    config.stash[_SERVERS] = ExitStack()
    try:
        config.stash[_KAFKA] = choose_kafka(config.getoption("--kafka"))
        config.stash[_REDIS] = choose_redis(config.getoption("--redis"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [f"kafka: {config.stash[_KAFKA]}", f"redis: {config.stash[_REDIS]}"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: the collector of garbage need not look through it again and again.

    It did so while thousands of tests were collected, and later in every test that makes many objects: the
    simulated worlds took half as much CPU time again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whole systems first, skipping what needs a real broker when the Kafka in use is not one.

    A demo takes a minute and mostly waits: begun last, it would keep idle cores waiting. At the head of one
    worker's share they run one after the other, beside everything else.
    """
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)
    if config.stash[_KAFKA].kind != "embedded":
        return
    reason = f"needs a real Kafka broker: {lacking('apache') or 'run without --kafka=embedded'}"
    for item in items:
        if item.get_closest_marker("real_broker") is not None and "every_kafka" not in _fixtures_of(item):
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "every_kafka" in metafunc.fixturenames:
        real_only = metafunc.definition.get_closest_marker("real_broker") is not None
        kinds = [kind for kind in KINDS if not (real_only and kind == "embedded")]
        metafunc.parametrize("every_kafka", kinds, indirect=True)


def _fixtures_of(item: pytest.Item) -> tuple[str, ...]:
    """The fixtures of a test, those of its fixtures included; none for a doctest without any."""
    return tuple(getattr(item, "fixturenames", ()))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Not with the fixture: who ends a server that others use waits for them, and no test's time runs."""
    session.config.stash[_SERVERS].close()


@pytest.fixture(scope="session")
def _kafkas(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Kafkas:
    directory = tmp_path_factory.getbasetemp()
    in_a_worker = hasattr(pytestconfig, "workerinput")  # whose own directory lies in that of all
    return Kafkas(pytestconfig.stash[_SERVERS], directory.parent if in_a_worker else directory)


@pytest.fixture(scope="session")
def kafka(_kafkas: Kafkas, pytestconfig: pytest.Config) -> KafkaUnderTest:
    """The Kafka of this run. Topics and groups need names of their own: see `topic`, `group`."""
    choice = pytestconfig.stash[_KAFKA]
    return _kafkas.get(choice.kind, choice.address)


@pytest.fixture
def every_kafka(request: pytest.FixtureRequest, _kafkas: Kafkas) -> KafkaUnderTest:
    """Each kind of Kafka in turn; only the real ones for a test marked `real_broker`."""
    kind: Kind = request.param
    reason = lacking(kind)
    if reason is not None:
        pytest.skip(f"{kind} Kafka: {reason}")
    return _kafkas.get(kind)


@pytest.fixture
def topic(kafka: KafkaUnderTest) -> TopicFactory:
    """Makes topics that nobody else uses: `topic(partitions=4, config=None)` gives the name."""
    return kafka.new_topic


@pytest.fixture
def group() -> str:
    """The name of a consumer group that nobody else uses."""
    return unique_name("group")


@pytest.fixture(scope="session")
def redis(pytestconfig: pytest.Config) -> Iterator[RedisUnderTest]:
    """The Redis of this run. Tests share it: use `redis_url` or `redis_prefix`."""
    with ExitStack() as stack:
        yield start_redis(pytestconfig.stash[_REDIS], stack)


@pytest.fixture
def redis_url(redis: RedisUnderTest) -> Iterator[str]:
    """An empty database of its own. A server of yours must give an empty one: it is wiped afterwards."""
    from redis import Redis

    url = redis.database(next(_databases))
    with Redis.from_url(url) as client:
        if redis.kind == "given" and client.dbsize():
            pytest.fail(
                "the Redis database given to the tests holds keys, and tests wipe it; give an empty one"
            )
        client.flushdb()
        yield url
        client.flushdb()


@pytest.fixture
def redis_prefix() -> str:
    """A key prefix that nobody else uses."""
    return f"{unique_name('test')}:"
