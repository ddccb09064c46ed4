"""The doctor says what is wrong and how to mend it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from services.cli.main import app
from services.doctor.clusters import check_pods, check_ray
from services.doctor.finding import Verdict
from services.settings import JobSettings
from tests.actuator import actors
from tests.actuator.clusters import kubeconfig, workload
from tests.actuator.kubernetes_controllers import DEPLOYMENTS, NAMESPACE
from tests.actuator.kubernetes_server import api_server
from tests.servers.kafka import KafkaUnderTest


def findings(config: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    result = CliRunner().invoke(app, ["doctor", "--config", str(config), "--json"])
    return result.exit_code, {finding["what"]: finding for finding in json.loads(result.stdout)}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "penstock.yaml"


def test_a_set_up_that_is_well(kafka: KafkaUnderTest, redis_url: str, config: Path, tmp_path: Path) -> None:
    topic = kafka.new_topic(partitions=3)
    config.write_text(
        f"kafka: {{bootstrap: '{kafka.bootstrap}'}}\nredis: {{url: '{redis_url}'}}\n"
        f"jobs: {{clicks: {{topic: {topic}, pool: {{run_dir: '{tmp_path}'}}}}}}\n"
    )

    code, found = findings(config)

    assert code == 0, found
    assert found["topic of clicks"]["detail"] == f"'{topic}' has 3 partition(s)"
    assert found["clock"]["verdict"] == "ok"
    assert found["Redis eviction"]["verdict"] == "ok"


def test_a_missing_topic_and_a_missing_program(kafka: KafkaUnderTest, redis_url: str, config: Path) -> None:
    config.write_text(
        f"kafka: {{bootstrap: '{kafka.bootstrap}'}}\nredis: {{url: '{redis_url}'}}\n"
        "jobs: {clicks: {topic: no-such-topic, pool: {command: [no-such-program]}}}\n"
    )

    code, found = findings(config)

    assert code == 1
    assert found["topic of clicks"]["remedy"] == "create it, or correct jobs.clicks.topic"
    assert "no-such-program" in found["workers of clicks"]["detail"]


def test_servers_that_do_not_answer(config: Path) -> None:
    config.write_text(
        "kafka: {bootstrap: '127.0.0.1:1', timeout_s: 0.5}\n"
        "redis: {url: 'redis://:hunter2@127.0.0.1:1', timeout_s: 0.5}\n"
    )

    code, found = findings(config)

    assert code == 1
    assert "does not answer" in found["Kafka"]["detail"]
    assert "PENSTOCK_REDIS__URL" in found["Redis"]["remedy"]
    assert "hunter2" not in json.dumps(found)


def test_settings_that_cannot_be_used_end_the_examination(config: Path) -> None:
    config.write_text("jobs: {clicks: {topic: t, slo: {fresh_within_s: -1}}}")

    code, found = findings(config)

    assert code == 1
    assert "jobs.clicks.slo.fresh_within_s" in found["settings"]["detail"]
    assert "Kafka" not in found


def test_a_docker_engine_that_does_not_answer(config: Path) -> None:
    config.write_text(
        "kafka: {bootstrap: '127.0.0.1:1', timeout_s: 0.5}\n"
        "redis: {url: 'redis://127.0.0.1:1', timeout_s: 0.5}\n"
        "jobs: {clicks: {topic: t, pool: {kind: docker, docker: {image: ours, url: 'unix:///no/such'}}}}\n"
    )

    _, found = findings(config)

    assert "the Docker engine does not answer" in found["pool of clicks"]["detail"]
    assert found["pool of clicks"]["remedy"] == "start it, or set jobs.clicks.pool.docker.url"


@asynccontextmanager
async def a_cluster(directory: Path, *, grace_s: int) -> AsyncIterator[Path]:
    """A Deployment whose pods get so long to leave; settings of a job on it."""
    async with api_server() as server:
        target = workload("clicks")
        target["spec"]["template"]["spec"] = {"terminationGracePeriodSeconds": grace_s}
        server.store.put(DEPLOYMENTS, target)
        (directory / "kubeconfig").write_text(kubeconfig(server), encoding="utf-8")
        yield directory / "kubeconfig"


def a_job_on_pods(config: Path) -> JobSettings:
    pool = {"kind": "kubernetes", "drain_s": 40.0, "kubernetes": {"kubeconfig": str(config)}}
    return JobSettings.model_validate({"topic": "clicks", "pool": pool})


async def test_a_deployment_that_is_there_is_well(tmp_path: Path) -> None:
    async with a_cluster(tmp_path, grace_s=40) as config:
        found = await asyncio.to_thread(check_pods, "pool", "clicks", a_job_on_pods(config))

    assert found.verdict is Verdict.OK
    assert found.detail.startswith(f"Deployment clicks in namespace {NAMESPACE} at http://127.0.0.1:")


async def test_pods_that_get_too_little_time_to_leave_are_told(tmp_path: Path) -> None:
    async with a_cluster(tmp_path, grace_s=39) as config:
        found = await asyncio.to_thread(check_pods, "pool", "clicks", a_job_on_pods(config))

    assert found.verdict is Verdict.WRONG
    assert "get 39 s to leave and pool.drain_s is 40" in found.detail


async def test_a_deployment_that_is_not_there_is_told(tmp_path: Path) -> None:
    async with a_cluster(tmp_path, grace_s=40) as config:
        found = await asyncio.to_thread(check_pods, "pool", "other", a_job_on_pods(config))

    assert found.verdict is Verdict.WRONG
    assert 'deployments "other" not found' in found.detail


@pytest.mark.skipif(not actors.lacking(), reason="where ray is installed, it is asked")
def test_a_ray_pool_without_ray_is_told() -> None:
    job = JobSettings.model_validate({"topic": "clicks", "pool": {"kind": "ray"}})

    found = check_ray("pool", "clicks", job)

    assert (found.verdict, found.remedy) == (Verdict.WRONG, "pip install 'penstock[ray]'")


def test_on_a_narrow_terminal_nothing_that_is_to_be_done_is_cut_off(config: Path) -> None:
    config.write_text("an_unknown_setting_with_a_name_of_more_than_forty_letters: 3")

    shown = CliRunner().invoke(app, ["doctor", "--config", str(config)], env={"COLUMNS": "40"})

    assert shown.exit_code == 1
    assert "…" not in shown.stdout
