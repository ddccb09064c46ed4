"""Which Kafka and Redis a test run uses."""

from __future__ import annotations

import pytest

from tests.servers import docker, kafka, redis
from tests.servers.kafka import Kind, choose_kafka
from tests.servers.redis import choose_redis


class Machine:
    """What is at hand."""

    def __init__(self) -> None:
        self.lacks: dict[str, str] = {}

    def lacking(self, kind: Kind) -> str | None:
        return self.lacks.get(kind)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Everything at hand, nothing given."""
    here = Machine()
    monkeypatch.delenv(kafka.ADDRESS_VARIABLE, raising=False)
    monkeypatch.delenv(redis.URL_VARIABLE, raising=False)
    monkeypatch.setattr(kafka, "lacking", here.lacking)
    return here


def test_an_address_in_the_environment_comes_first(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kafka.ADDRESS_VARIABLE, "broker:9092")

    choice = choose_kafka(None)

    assert str(choice) == "given broker:9092 (by PENSTOCK_TEST_KAFKA)"


def test_then_apache_then_a_container_then_the_embedded_one(machine: Machine) -> None:
    assert choose_kafka(None).kind == "apache"
    machine.lacks["apache"] = "Java is not installed"
    assert choose_kafka(None).kind == "container"
    machine.lacks["container"] = "Docker is not installed"
    assert str(choose_kafka(None)) == "embedded (no real broker at hand: Java is not installed)"


@pytest.mark.parametrize("option", ["embedded", "apache", "container"])
def test_the_option_wins_over_the_environment(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setenv(kafka.ADDRESS_VARIABLE, "broker:9092")

    assert str(choose_kafka(option)) == f"{option} (by --kafka)"


def test_what_was_asked_for_and_cannot_be_had_is_an_error(machine: Machine) -> None:
    machine.lacks["apache"] = "Java is not installed; install it"

    with pytest.raises(ValueError, match="--kafka=apache: Java is not installed; install it"):
        choose_kafka("apache")


def test_a_kind_that_does_not_exist_is_an_error(machine: Machine) -> None:
    with pytest.raises(ValueError, match="--kafka=redpanda: give embedded, apache, container or HOST:PORT"):
        choose_kafka("redpanda")


def test_redis_is_embedded_unless_one_is_given(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_redis(None).kind == "embedded"
    monkeypatch.setenv(redis.URL_VARIABLE, "redis://:secret@cache:6380/5")

    assert str(choose_redis(None)) == "given cache:6380 (by PENSTOCK_TEST_REDIS)"
    assert choose_redis("embedded").kind == "embedded"


def test_a_redis_container_that_cannot_be_had_is_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "lacking", lambda image: f"`docker pull {image}`")

    with pytest.raises(ValueError, match="--redis=container: `docker pull redis:7`"):
        choose_redis("container")


def test_a_redis_that_is_no_url_is_an_error(machine: Machine) -> None:
    with pytest.raises(ValueError, match="--redis=localhost: give embedded, container or a URL"):
        choose_redis("localhost")


def test_docker_that_is_missing_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    assert docker.lacking("apache/kafka:4.1.1") == (
        "Docker is not installed; install it and `docker pull apache/kafka:4.1.1`"
    )
