"""`penstock worker` as a process: how it starts, trains, leaves, and gives up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from services.settings import Settings
from services.store.connect import connect
from services.store.keys import Keys
from services.store.reports import RedisReports
from tests.servers.kafka import KafkaUnderTest
from tests.stream.streams import JOB, committed, leases_out, produce, progress_of, settings_for, trained_all
from tests.waiting import eventually, eventually_async


class Workers:
    """Starts `penstock worker`; ends what is left of them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: list[subprocess.Popen[str]] = []

    def start(self, *options: str, env: dict[str, str] | None = None, fd: int | None = None) -> Worker:
        name = f"w{len(self._running)}"
        ready = self._directory / f"{name}.ready"
        log = self._directory / f"{name}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "services.cli.main", "worker", "--worker-id", name, *options],
                env={**os.environ, **(env or {}), "PENSTOCK_READY_FILE": str(ready)},
                stderr=output,
                text=True,
                pass_fds=() if fd is None else (fd,),
            )
        self._running.append(process)
        return Worker(process, ready, log)

    def configured(self, settings: Settings) -> list[str]:
        config = self._directory / "penstock.yaml"
        config.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
        return ["--job", JOB, "--config", str(config)]

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()


class Worker:
    def __init__(self, process: subprocess.Popen[str], ready: Path, log: Path) -> None:
        self.process = process
        self._ready = ready
        self._log = log

    def wait_until_ready(self) -> None:
        eventually(self._ready.exists, within_s=60, what="the worker is ready")

    def ask_to_leave(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def exit_code(self) -> int:
        return self.process.wait(60)

    def said(self) -> str:
        return self._log.read_text()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    workers = Workers(tmp_path)
    yield workers
    workers.end()


@pytest.fixture
def settings(kafka: KafkaUnderTest, redis_url: str, group: str) -> Settings:
    return settings_for(
        kafka.bootstrap, redis_url, kafka.new_topic(2), group, worker={"batch": 50, "step_ms": 20.0}
    )


def test_a_worker_trains_reports_and_leaves_in_order(workers: Workers, settings: Settings) -> None:
    samples = produce(settings.kafka.bootstrap, settings.jobs[JOB].topic, {0: 400, 1: 100})
    worker = workers.start(*workers.configured(settings))
    worker.wait_until_ready()
    trained_all(settings, samples)

    worker.ask_to_leave()

    assert worker.exit_code() == 0, worker.said()
    assert committed(settings, 2) == {0: 400, 1: 100}
    assert "worker_left" in worker.said()


async def test_the_controller_hears_how_busy_it_is_and_no_more_once_it_left(
    workers: Workers, settings: Settings
) -> None:
    produce(settings.kafka.bootstrap, settings.jobs[JOB].topic, {0: 20_000})
    worker = workers.start(*workers.configured(settings))
    client = connect(settings.redis)
    reports = RedisReports(client, Keys(settings.redis.prefix), JOB)

    async def busy() -> bool:
        return any(report.busy > 0.5 and report.trained > 0 for report in await reports.reports())

    await eventually_async(busy, within_s=60, what="a report of a busy worker")
    (report,) = await reports.reports()
    assert report.worker == "w0"
    assert 0 < report.rate_per_busy_s <= 1.1 * 50 / 0.020, "no faster than the device"

    worker.ask_to_leave()
    assert worker.exit_code() == 0
    assert await reports.reports() == ()
    await client.aclose()


def test_options_are_enough_without_a_file(
    workers: Workers, kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = kafka.new_topic(1)
    samples = produce(kafka.bootstrap, topic, {0: 60})
    worker = workers.start(
        *("--job", JOB, "--kafka", kafka.bootstrap, "--redis", redis_url, "--topic", topic, "--group", group),
        *("--batch", "10", "--step-ms", "1"),
    )

    trained_all(settings_for(kafka.bootstrap, redis_url, topic, group), samples)
    worker.ask_to_leave()

    assert worker.exit_code() == 0, worker.said()


def test_a_second_sigterm_ends_it_at_once(workers: Workers, settings: Settings) -> None:
    produce(settings.kafka.bootstrap, settings.jobs[JOB].topic, {0: 100})
    worker = workers.start(*workers.configured(settings), "--step-ms", "600000")
    # It takes the second lease ahead once it trains the first.
    eventually(lambda: leases_out(settings) == 2, within_s=60, what="it is in the middle of a step")

    worker.ask_to_leave()
    with pytest.raises(subprocess.TimeoutExpired):
        worker.process.wait(0.5)  # the step takes ten minutes
    worker.ask_to_leave()

    assert worker.exit_code() == 128 + signal.SIGTERM
    assert progress_of(settings).trained == 0


def test_a_worker_ends_with_its_owner(workers: Workers, settings: Settings) -> None:
    watched, held = os.pipe()
    worker = workers.start(*workers.configured(settings), env={"PENSTOCK_OWNER_FD": str(watched)}, fd=watched)
    os.close(watched)
    worker.wait_until_ready()

    os.close(held)

    assert worker.exit_code() == 71


def test_asked_to_leave_while_it_gets_ready_it_takes_no_work(workers: Workers, settings: Settings) -> None:
    produce(settings.kafka.bootstrap, settings.jobs[JOB].topic, {0: 100})
    worker = workers.start(*workers.configured(settings), "--startup-s", "600")
    eventually(lambda: "worker_connected" in worker.said(), within_s=60, what="it is connected")

    worker.ask_to_leave()

    assert worker.exit_code() == 0, worker.said()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--job", "nobody"], 2, "there is no job 'nobody'"),
        (["--job", JOB, "--kafka", "nonsense"], 2, "not HOST:PORT"),
        (["--job", JOB, "--topic", "no-such-topic"], 66, "no-such-topic"),
        (["--job", JOB, "--kafka", "127.0.0.1:1"], 69, "127.0.0.1:1"),
        (["--job", JOB, "--redis", "redis://:secret@127.0.0.1:1/0"], 69, "127.0.0.1:1"),
    ],
)
def test_what_keeps_it_from_starting_has_a_code_and_a_message(
    workers: Workers, settings: Settings, options: list[str], code: int, said: str
) -> None:
    quick = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"timeout_s": 1.0})})
    worker = workers.start(*workers.configured(quick), *options, "--connect-s", "0.2")

    assert worker.exit_code() == code, worker.said()
    assert said in worker.said()
    assert "secret" not in worker.said()
