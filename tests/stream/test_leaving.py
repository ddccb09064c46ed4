"""Workers that are asked to leave and freeze, hang or wake: none is killed while it holds a lease."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from services.actuator.process_pool import ProcessPool
from services.actuator.tending import Tending
from services.control.types import PoolResize
from services.settings import Settings
from tests.actuator.processes import running
from tests.servers.kafka import KafkaUnderTest
from tests.stream.crews import Crew, at_work
from tests.stream.streams import JOB, holds_leases, leases_out, produce, settings_for
from tests.waiting import eventually, eventually_async

TTL_S, DRAIN_S = 6.0, 8.0
STEP_S = 600.0
"""Nobody finishes what it was given before it is killed."""


@pytest.fixture
def settings(kafka: KafkaUnderTest, redis_url: str, group: str) -> Settings:
    """As short a time to leave as the settings allow, with samples for all."""
    settings = settings_for(
        kafka.bootstrap,
        redis_url,
        kafka.new_topic(2),
        group,
        shuffle={"lease_ttl_s": TTL_S},
        pool={"drain_s": DRAIN_S},
    )
    produce(kafka.bootstrap, settings.jobs[JOB].topic, {0: 5_000, 1: 5_000})
    return settings


@pytest.fixture
def crew(settings: Settings, tmp_path: Path) -> Iterator[Crew]:
    """One worker that is heard all the time, so that the ledger is not taken for deaf."""
    with at_work(settings, tmp_path, workers=1) as crew:
        yield crew


def asked_to_leave(crew: Crew, worker: str) -> float:
    """SIGTERM to a worker in the middle of a step; when that was."""
    eventually(lambda: leases_out(crew.settings, worker) == 2, within_s=60, what="it trains and looks ahead")
    crew.signal(worker, signal.SIGTERM)
    return time.monotonic()


def until(moment_s: float) -> None:
    eventually(lambda: time.monotonic() >= moment_s, what="the moment")


@pytest.mark.parametrize("frozen_after_s", [0.0, 4.0])
def test_a_worker_that_freezes_while_it_drains_holds_nothing_when_its_time_is_over(
    crew: Crew, frozen_after_s: float
) -> None:
    frozen = crew.hire(step_s=STEP_S)
    asked_s = asked_to_leave(crew, frozen)
    until(asked_s + frozen_after_s)
    crew.signal(frozen, signal.SIGSTOP)
    assert holds_leases(crew.settings, frozen), "it was to freeze with a lease"

    until(asked_s + DRAIN_S)

    assert not holds_leases(crew.settings, frozen)
    assert leases_out(crew.settings, frozen) == 0, "others have what it held"


def test_a_worker_that_was_frozen_when_it_was_asked_counts_its_time_from_then(crew: Crew) -> None:
    """It wakes, hears that it is to leave, and freezes again: too late to begin to count."""
    frozen = crew.hire(step_s=STEP_S)
    eventually(lambda: leases_out(crew.settings, frozen) == 2, within_s=60, what="it trains and looks ahead")
    crew.signal(frozen, signal.SIGSTOP)
    asked_s = asked_to_leave(crew, frozen)
    until(asked_s + 3.5)
    crew.signal(frozen, signal.SIGCONT)
    until(asked_s + 4.8)
    crew.signal(frozen, signal.SIGSTOP)

    until(asked_s + DRAIN_S)

    assert not holds_leases(crew.settings, frozen)


def test_a_worker_whose_device_hangs_gives_its_leases_back(crew: Crew) -> None:
    """Its main thread is in a call that does not return, and runs no handler of a signal."""
    hung = crew.hire(step_s=0.0, hangs="yes")
    asked_s = asked_to_leave(crew, hung)

    eventually(lambda: leases_out(crew.settings, hung) == 0, what="it has given them back")

    assert time.monotonic() < asked_s + DRAIN_S
    assert crew.processes[hung].is_alive(), "it hangs still, and can be killed without harm"


async def test_a_pool_kills_no_worker_that_holds_a_lease(settings: Settings, tmp_path: Path) -> None:
    """Told by the pool how long it has: its own settings say something else."""
    config = tmp_path / "penstock.yaml"
    own = settings.model_dump(mode="json")
    own["jobs"][JOB]["pool"]["drain_s"] = 30.0
    config.write_text(yaml.safe_dump(own), encoding="utf-8")
    command = [sys.executable, "-m", "services.cli.main", "worker", "--job", JOB, "--worker-id", "{worker}"]
    command += ["--config", str(config), "--step-ms", str(STEP_S * 1000)]
    async with ProcessPool(
        JOB, command=command, run_dir=tmp_path, owned=True, tending=Tending(drain_s=DRAIN_S)
    ) as pool:
        await pool.resize(PoolResize(2, "clicks-1", fence=1))
        await eventually_async(
            lambda: leases_out(settings, "w-1") == leases_out(settings, "w-2") == 2,
            within_s=60,
            what="both train",
        )
        leaver = psutil.Process(running(tmp_path)["w-2"])
        await pool.resize(PoolResize(1, "clicks-2", fence=1, remove=("w-2",)))
        asked_s = time.monotonic()
        await eventually_async(lambda: time.monotonic() >= asked_s + 4.0, what="it drains")
        leaver.suspend()
        assert holds_leases(settings, "w-2")
        await eventually_async(lambda: not holds_leases(settings, "w-2"), what="they lapse")
        assert running(tmp_path).keys() == {"w-1", "w-2"}, "it was killed with leases in its hands"
        await eventually_async(lambda: not leaver.is_running(), what="the pool has killed it")
        assert time.monotonic() >= asked_s + DRAIN_S
        await pool.close(within_s=0.0)
