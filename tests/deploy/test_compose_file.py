"""What docker-compose.yml promises, read from the file: limits, health, order, no secrets, no root."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from services.settings import load_settings
from tests.deploy.queries import DEPLOY

COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PASSING = {"topic", "past"}
"""Services that do one thing and end."""
RUNNING = SERVICES.keys() - PASSING - {"worker"}


@pytest.mark.parametrize("name", sorted(RUNNING))
def test_a_service_has_a_health_check_and_is_started_again(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"]
    assert SERVICES[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", sorted(RUNNING | PASSING))
def test_a_service_is_bounded(name: str) -> None:
    assert SERVICES[name]["mem_limit"]
    assert SERVICES[name]["pids_limit"]


def test_all_limits_together_fit_a_machine_of_four_gigabytes() -> None:
    settings = load_settings(DEPLOY / "compose" / "penstock.yaml")
    job = settings.jobs["clicks"]
    limits_mib = [_mib(SERVICES[name]["mem_limit"]) for name in RUNNING - {"grafana"}]

    assert job.pool.docker.memory_mib is not None
    workers_mib = job.scaling.workers_max * job.pool.docker.memory_mib
    assert sum(limits_mib) + workers_mib <= 4096 - 256, "a quarter of a gigabyte is the system's own"


def _mib(limit: str) -> int:
    return int(limit[:-1]) * {"m": 1, "g": 1024}[limit[-1]]


def test_every_service_is_in_a_profile_and_the_default_ones_are_in_the_env_file() -> None:
    profiles = {profile for service in SERVICES.values() for profile in service["profiles"]}
    default = (DEPLOY.parent / ".env").read_text(encoding="utf-8")

    assert profiles == {"core", "load", "observability", "grafana"}
    assert "COMPOSE_PROFILES=core,load,observability" in default


def test_only_the_controller_reaches_the_docker_socket_and_it_drops_root() -> None:
    reach = {
        name
        for name, service in SERVICES.items()
        if any("docker.sock" in volume for volume in service.get("volumes", ()))
    }

    assert reach == {"controller"}
    assert SERVICES["controller"]["entrypoint"][0] == "with-docker-socket"
    assert {name for name, service in SERVICES.items() if "user" in service} == {"controller"}


def test_ports_are_this_machines_alone() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]

    assert len(ports) == 4
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_there_is_no_secret_in_the_file() -> None:
    for name, service in SERVICES.items():
        for variable in service.get("environment", {}):
            assert not re.search(r"PASSWORD|SECRET|TOKEN|KEY", variable), f"{name}: {variable}"


def test_the_workers_are_told_what_the_controller_was_told() -> None:
    """A worker reads no file; its variables must not drift from the job's settings."""
    settings = load_settings(DEPLOY / "compose" / "penstock.yaml")
    job = settings.jobs["clicks"]
    told = job.pool.docker.env

    assert told["PENSTOCK_KAFKA__BOOTSTRAP"] == settings.kafka.bootstrap
    assert told["PENSTOCK_REDIS__URL"] == settings.redis.url
    assert told["PENSTOCK_JOBS__CLICKS__TOPIC"] == job.topic
    assert float(told["PENSTOCK_JOBS__CLICKS__SHUFFLE__LEASE_S"]) == job.shuffle.lease_s
    assert float(told["PENSTOCK_JOBS__CLICKS__SHUFFLE__LEASE_TTL_S"]) == job.shuffle.lease_ttl_s
    assert told["PENSTOCK_JOBS__CLICKS__SHUFFLE__START"] == job.shuffle.start
    assert int(told["PENSTOCK_JOBS__CLICKS__WORKER__BATCH"]) == job.worker.batch
    assert float(told["PENSTOCK_JOBS__CLICKS__WORKER__STEP_MS"]) == job.worker.step_ms
    assert told["PENSTOCK_JOBS__CLICKS__WORKER__DEVICE"] == job.worker.device
    assert int(told["PENSTOCK_JOBS__CLICKS__WORKER__STALENESS"]) == job.worker.staleness
    assert int(told["PENSTOCK_JOBS__CLICKS__PARAMETERS__SHARDS"]) == job.parameters.shards


def test_every_shard_of_the_job_is_served_under_a_name_that_workers_reach() -> None:
    job = load_settings(DEPLOY / "compose" / "penstock.yaml").jobs["clicks"]
    shards = {name: service for name, service in SERVICES.items() if name.startswith("shard-")}

    assert job.worker.device != "emulated"
    assert [service["command"] for service in shards.values()] == [
        [f"--shard={number}", f"--advertise=shard-{number}"] for number in range(job.parameters.shards)
    ]
    assert shards.keys() <= SERVICES["worker"]["depends_on"].keys()


def test_snapshots_outlive_their_shard() -> None:
    job = load_settings(DEPLOY / "compose" / "penstock.yaml").jobs["clicks"]
    (volume,) = (v for v in SERVICES["shard-0"]["volumes"] if v.startswith("parameters:"))

    assert "parameters" in COMPOSE["volumes"]
    assert job.parameters.directory.is_relative_to(volume.partition(":")[2])
