"""The controller as a service: what it does when its world is missing, taken, killed or doubled."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from services.embedded.ports import free_ports
from tests.servers.kafka import KafkaUnderTest
from tests.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

PENSTOCK = (sys.executable, "-m", "services.cli.main")


class Site:
    """One set-up of Kafka, Redis and a job, on which controllers can be started."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []
        self.settings: dict[str, Any] = {
            "kafka": {"bootstrap": "127.0.0.1:1", "timeout_s": 1.0},
            "redis": {"url": "redis://127.0.0.1:1", "timeout_s": 0.5},
            "controller": {"tick_s": 0.3, "leader_ttl_s": 2.0},
            "jobs": {"clicks": self.job()},
        }

    def job(self) -> dict[str, Any]:
        return {
            "topic": "no-such-topic",
            "scaling": {"workers_min": 2, "workers_max": 4, "lead_time_s": 5.0},
            "pool": {"run_dir": str(self.directory / "run"), "drain_s": 7.0},
            "shuffle": {"lease_ttl_s": 5.0},
            "worker": {"step_ms": 10.0},
        }

    def serve(self, *, port: int | None = None) -> Controller:
        free, operations = free_ports(2)
        port = port or free
        config = self.directory / f"penstock-{port}.yaml"
        api = {"port": port, "operations_port": operations}
        config.write_text(yaml.safe_dump({**self.settings, "api": api}), encoding="utf-8")
        log = (self.directory / f"serve-{port}.log").open("wb")
        process = subprocess.Popen(
            [*PENSTOCK, "serve", "--config", str(config)], stdout=log, stderr=subprocess.STDOUT
        )
        log.close()
        self.processes.append(process)
        return Controller(process, port, operations, Path(log.name))

    def workers(self) -> set[int]:
        """Process ids of this site's workers, whoever started them."""
        found = set()
        for process in psutil.process_iter(["pid", "cmdline", "status"]):
            line = process.info["cmdline"] or []
            if process.info["status"] != psutil.STATUS_ZOMBIE and "--worker-id" in line:
                found |= {process.pid} if any(str(self.directory) in part for part in line) else set()
        return found

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for pid in self.workers():
            psutil.Process(pid).kill()
        eventually(lambda: not self.workers(), what="no worker left")


class Controller:
    """A controller process and its API."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, operations: int, log: Path) -> None:
        self.process = process
        self.address = f"http://127.0.0.1:{port}"
        self.operations = f"http://127.0.0.1:{operations}"
        self._log = log

    def get(self, path: str) -> Any:
        """The JSON answer, whatever the status; None while nobody listens."""
        try:
            server = self.address if path.startswith("/v1/") else self.operations
            with urllib.request.urlopen(server + path, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as answer:
            with answer:
                return json.load(answer)
        except OSError:
            return None

    def trouble(self, dependency: str) -> str:
        """What /readyz says of a dependency; empty when it is well or not known yet."""
        readiness = self.get("/readyz")
        state = "ok" if readiness is None else readiness["dependencies"][dependency]
        return "" if state == "ok" else state

    def ready_workers(self, job: str = "clicks") -> int:
        workers = self.get(f"/v1/jobs/{job}/workers")
        if not isinstance(workers, list):
            return 0
        return sum(worker["phase"] == "ready" for worker in workers)

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.end()


@pytest.fixture
def working_site(site: Site, kafka: KafkaUnderTest, redis_url: str) -> Site:
    site.settings["kafka"] = {"bootstrap": kafka.bootstrap}
    site.settings["redis"] = {"url": redis_url}
    site.settings["jobs"]["clicks"]["topic"] = kafka.new_topic(partitions=4)
    return site


def test_a_killed_controllers_workers_are_adopted_and_the_pool_is_not_doubled(working_site: Site) -> None:
    first = working_site.serve()
    eventually(lambda: first.ready_workers() == 2, within_s=60, what="two workers ready")
    workers = working_site.workers()

    first.process.kill()
    first.process.wait()
    second = working_site.serve()
    eventually(lambda: second.ready_workers() == 2, within_s=60, what="the workers adopted")

    assert working_site.workers() == workers
    ids = [decision["id"] for decision in second.get("/v1/jobs/clicks/decisions")]
    assert len(ids) == len(set(ids)), "a decision number was used twice"


def test_workers_go_on_when_the_controller_is_stopped(working_site: Site) -> None:
    controller = working_site.serve()
    eventually(lambda: controller.ready_workers() == 2, within_s=60, what="two workers ready")
    workers = working_site.workers()

    controller.process.send_signal(signal.SIGTERM)

    assert controller.process.wait(timeout=30) == 0, controller.log()
    assert working_site.workers() == workers


def test_of_two_controllers_one_leads_and_the_other_takes_over(working_site: Site) -> None:
    first = working_site.serve()
    eventually(lambda: (first.get("/readyz") or {}).get("leading"), within_s=60, what="a leader")
    second = working_site.serve()
    eventually(lambda: second.get("/readyz"), within_s=60, what="a second controller")
    eventually(lambda: first.ready_workers() == 2, within_s=60, what="two workers ready")
    workers = working_site.workers()

    assert not second.get("/readyz")["leading"]
    assert second.get("/readyz")["ready"], "a follower is ready"
    first.process.kill()
    first.process.wait()
    eventually(lambda: second.get("/readyz")["leading"], within_s=60, what="the follower leading")
    eventually(lambda: second.ready_workers() == 2, within_s=60, what="the workers adopted")
    assert working_site.workers() == workers


def test_a_lost_worker_is_replaced(working_site: Site) -> None:
    controller = working_site.serve()
    eventually(lambda: controller.ready_workers() == 2, within_s=60, what="two workers ready")
    victim = min(working_site.workers())

    psutil.Process(victim).kill()

    eventually(
        lambda: victim not in working_site.workers() and controller.ready_workers() == 2,
        within_s=60,
        what="the worker replaced",
    )
    eventually(lambda: "workers_lost" in controller.log(), what="the loss told")


def test_kafka_away_at_start_is_said_and_the_controller_waits_for_it(site: Site, redis_url: str) -> None:
    site.settings["redis"] = {"url": redis_url}
    controller = site.serve()

    told = eventually(lambda: controller.trouble("kafka"), within_s=60, what="Kafka found missing")

    assert "127.0.0.1:1" in told
    assert controller.process.poll() is None


def test_redis_away_at_start_is_said_and_the_controller_waits_for_it(
    site: Site, kafka: KafkaUnderTest
) -> None:
    site.settings["kafka"] = {"bootstrap": kafka.bootstrap}
    controller = site.serve()

    eventually(lambda: controller.trouble("redis"), within_s=60, what="Redis found missing")

    assert not controller.get("/readyz")["leading"]
    assert controller.get("/healthz") == {"status": "ok"}


def test_a_missing_topic_is_named(working_site: Site) -> None:
    working_site.settings["jobs"]["clicks"]["topic"] = "no-such-topic"
    controller = working_site.serve()

    told = eventually(lambda: controller.trouble("kafka"), within_s=60, what="the topic found missing")

    assert "no-such-topic" in told


def test_workers_that_die_at_start_are_reported_and_not_spun(working_site: Site) -> None:
    job = working_site.settings["jobs"]["clicks"]
    job["pool"]["command"] = [sys.executable, "-c", "raise SystemExit('no GPU found')"]
    controller = working_site.serve()

    told = eventually(lambda: controller.trouble("pool"), within_s=60, what="the crash loop told")

    assert "no GPU found" in told
    assert controller.log().count("worker_started") < 10


def test_a_taken_port_is_told_before_anything_starts(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        controller = site.serve(port=port)

        assert controller.process.wait(timeout=60) == 2
        assert f"cannot listen on 127.0.0.1:{port}" in controller.log()
        assert "PENSTOCK_API__PORT" in controller.log()


def test_bad_settings_are_told_and_nothing_starts(site: Site) -> None:
    site.settings["jobs"]["clicks"]["scaling"]["workers_min"] = 99
    controller = site.serve()

    assert controller.process.wait(timeout=60) == 2
    assert "workers_min (99) is above workers_max (4)" in controller.log()
