"""A cluster behind TLS and passwords: the options pass through, the secrets go nowhere else."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from services.control.errors import TrafficUnavailable
from services.embedded.apache import ApacheKafka
from tests.e2e.test_serve import Controller, Site
from tests.meter.live_topic import LiveTopic, Metered
from tests.servers.kafka import lacking, unique_name
from tests.servers.secured import PASSWORD, SecuredKafka, broker_settings, client_options, make_certificate
from tests.waiting import eventually

pytestmark = [pytest.mark.real_broker, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    reason = lacking("apache")
    if reason is not None:
        pytest.skip(f"an Apache Kafka behind TLS: {reason}")
    directory = tmp_path_factory.mktemp("certificates")
    make_certificate(directory)
    options = client_options(directory)
    with ApacheKafka(settings=broker_settings(directory), client=options) as server:
        yield SecuredKafka(server.bootstrap, options, server)


@pytest.fixture
def live(secured: SecuredKafka, group: str) -> LiveTopic:
    topic = unique_name("topic")
    secured.server.create_topic(topic, 2)
    admin = secured.server.admin()
    eventually(lambda: topic in admin.list_topics(timeout=10).topics)
    return LiveTopic(secured.bootstrap, topic, group, options=secured.options)


async def test_a_secured_cluster_is_measured_like_any_other(live: LiveTopic) -> None:
    async with Metered(live) as metered:
        await metered.until(lambda reading: not reading.degraded)
        live.produce(30, 10)
        live.commit({0: 20})

        reading = await metered.read()

    assert reading.partition_lags == (10, 10)
    assert reading.rate_per_s > 0


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"sasl.password": "another-secret"}, "Invalid username or password"),
        ({"ssl.ca.location": ""}, "certificate could not be verified"),
    ],
)
async def test_a_refusal_is_told_with_its_cause_and_without_the_secret(
    secured: SecuredKafka, live: LiveTopic, wrong: dict[str, str], complaint: str
) -> None:
    refused = LiveTopic(secured.bootstrap, live.topic, live.group, options={**secured.options, **wrong})

    async with Metered(refused, timeout_s=3.0) as metered:
        with pytest.raises(TrafficUnavailable) as told:
            await metered.read()

    assert complaint in str(told.value)
    assert "check `kafka.options`" in str(told.value)
    assert not any(secret in str(told.value) for secret in (PASSWORD, "another-secret"))


@pytest.mark.parametrize("password", [PASSWORD, "wr0ng-but-secret"])
def test_no_secret_reaches_log_api_or_store(
    secured: SecuredKafka, live: LiveTopic, tmp_path: Path, redis_url: str, password: str
) -> None:
    site = Site(tmp_path)
    site.settings["kafka"] |= {
        "bootstrap": secured.bootstrap,
        "options": {**secured.options, "sasl.password": password},
    }
    site.settings |= {"redis": {"url": redis_url}, "log": {"level": "debug"}}
    site.settings["jobs"]["clicks"] |= {"topic": live.topic, "pool": {"kind": "recommend"}}
    try:
        controller = site.serve()
        if password == PASSWORD:
            eventually(lambda: _plan(controller), within_s=120, what="a first decision")
        else:
            eventually(lambda: "lets us in" in controller.trouble("kafka"), within_s=120)
        shown = "".join(_get(controller, path) for path in PATHS)
    finally:
        site.end()

    with Redis.from_url(redis_url) as client:
        stored = b"".join(client.dump(key) or b"" for key in client.scan_iter())
    assert "clicks" in shown
    assert stored
    for text in (controller.log(), shown, stored.decode("latin-1")):
        assert password not in text


PATHS = (
    "/v1/jobs",
    "/v1/jobs/clicks",
    "/v1/jobs/clicks/plan",
    "/v1/jobs/clicks/traffic",
    "/readyz",
    "/metrics",
)


def _plan(controller: Controller) -> bool:
    plan = controller.get("/v1/jobs/clicks/plan")
    return isinstance(plan, dict) and "reason" in plan


def _get(controller: Controller, path: str) -> str:
    """The answer as text, whatever its status."""
    server = controller.address if path.startswith("/v1/") else controller.operations
    try:
        with urllib.request.urlopen(server + path, timeout=10) as answer:
            return str(answer.read())
    except urllib.error.HTTPError as answer:
        with answer:
            return str(answer.read())
