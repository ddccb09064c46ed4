"""A profile: what one worker trains, then two, that never run short of samples, before a first decision.

The workers are the job's own, on this machine. They read what Kafka has kept of the topic from its
beginning, under a group, a Redis and a parameter server of the profile's own: nothing that they learn or
commit is the job's, and nothing of it stays.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from services.control.types import Shuffle, WorkerReport
from services.embedded.guarded import GuardedProcess
from services.embedded.redis import EmbeddedRedis
from services.settings import Settings
from services.settings.root import RedisSettings
from services.settings.scaling import ProfilePoint
from services.store.connect import connect
from services.store.keys import Keys
from services.store.reports import RedisReports
from services.stream.offsets import begin_offsets, end_offsets

log = structlog.get_logger(__name__)

SETTLE_S = 3.0
"""The first seconds with another worker are not counted: caches and compilers warm up in them."""
EXHAUSTED = 0.98
"""Of what Kafka has kept. With more than that trained, workers waited for the last leases."""
_LOOK_S = 0.2
_KAFKA_S = 10.0

Told = Callable[[str], None]
"""Hears what is being done."""


class ParameterServer(Protocol):
    """The shards of a job, as processes."""

    def start(self) -> None:
        """And wait until each answers."""
        ...

    def stop(self) -> None:
        """And wait."""
        ...


MakeShards = Callable[[Settings, Path, Path], ParameterServer]
"""From the profile's settings, the file they are in, and a directory for logs."""


@dataclass(frozen=True, slots=True)
class ProfileTerms:
    """What to measure, and how long."""

    sizes: tuple[int, ...]
    """Pool sizes, ascending."""
    seconds: float
    """For each size."""
    gpu_type: str
    """What the pool calls this machine's type of GPU."""
    start_within_s: float
    """How long a worker has to begin."""


class ProfileFailed(Exception):
    """Nothing could be measured; the message says why and what to do."""


def profile(
    settings: Settings, job: str, terms: ProfileTerms, *, make_shards: MakeShards, told: Told
) -> list[ProfilePoint]:
    """What pools of these sizes train. Raises ProfileFailed, SourceMissing, SourceUnavailable."""
    kept = _kept(settings, job)
    if kept == 0:
        raise ProfileFailed(
            f"Kafka has kept no samples of topic {settings.jobs[job].topic!r}; profile when there are some"
        )
    with ExitStack() as stack:
        redis = stack.enter_context(EmbeddedRedis())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-profile-")))
        scratch = _scratch(settings, job, redis=redis.url, directory=directory)
        stack.callback(_forget_group, scratch, job)
        config = directory / "penstock.yaml"
        config.touch(mode=0o600)  # an address can hold a password
        config.write_text(yaml.safe_dump(scratch.model_dump(mode="json")), encoding="utf-8")
        if scratch.jobs[job].worker.device != "emulated":
            shards = make_shards(scratch, config, directory)
            stack.callback(shards.stop)
            shards.start()
        crew = _Crew(job, config, directory)
        stack.callback(crew.stop)
        measuring = _Measuring(scratch, job, crew, terms, kept=kept, told=told)
        rates = asyncio.run(measuring.rates())
    return [
        ProfilePoint(workers=workers, samples_per_s=float(f"{rate:.5g}"), gpu_type=terms.gpu_type)
        for workers, rate in zip(terms.sizes, rates, strict=True)
    ]


class _Crew:
    """The profile's workers. They end with this process, however it ends."""

    def __init__(self, job: str, config: Path, directory: Path) -> None:
        self._command = [sys.executable, "-m", "services.cli.main", "worker", "--config", str(config)]
        self._command += ["--job", job, "--worker-id"]
        self._directory = directory
        self._workers: list[GuardedProcess] = []

    def grow(self, size: int) -> None:
        """Start workers until there are `size`."""
        while len(self._workers) < size:
            name = f"profile-{len(self._workers)}"
            worker = GuardedProcess([*self._command, name], log=self._directory / f"{name}.log")
            self._workers.append(worker)
            worker.start()

    def check(self) -> None:
        """Raises ProfileFailed, with its last words, when one has ended."""
        for worker in self._workers:
            if not worker.alive:
                raise ProfileFailed(f"a worker ended with code {worker.exit_code}: {worker.log_tail()}")

    def stop(self) -> None:
        """End them all; what they were at is discarded anyway."""
        for worker in self._workers:
            worker.stop()


class _Measuring:
    """Watches the reports of the profile's workers."""

    def __init__(
        self, settings: Settings, job: str, crew: _Crew, terms: ProfileTerms, *, kept: int, told: Told
    ) -> None:
        self._settings = settings
        self._job = job
        self._crew = crew
        self._terms = terms
        self._kept = kept
        self._told = told

    async def rates(self) -> list[float]:
        """Samples a second of each size."""
        client = connect(self._settings.redis)
        try:
            reports = RedisReports(client, Keys(self._settings.redis.prefix), self._job)
            return [await self._rate(reports, size) for size in self._terms.sizes]
        finally:
            await client.aclose()

    async def _rate(self, reports: RedisReports, size: int) -> float:
        self._told(f"starting worker {size}")
        self._crew.grow(size)
        await self._all_train(reports, size)
        self._told(f"measuring {size} {'worker' if size == 1 else 'workers'}")
        await asyncio.sleep(SETTLE_S)
        before = await _by_worker(reports)
        await asyncio.sleep(self._terms.seconds)
        self._crew.check()
        after = await _by_worker(reports)
        trained = sum(report.trained for report in after.values())
        if trained >= EXHAUSTED * self._kept:
            raise ProfileFailed(
                f"the {self._kept:,} samples that Kafka has kept were all trained before the end; "
                "measure for less time (--seconds), or when more has been kept"
            )
        spans = [(before[name], after[name]) for name in sorted(before.keys() & after.keys())]
        if len(spans) < size or any(late.at_s <= early.at_s for early, late in spans):
            raise ProfileFailed("a worker stopped reporting; measure for longer (--seconds)")
        if any(late.trained <= early.trained for early, late in spans):
            raise ProfileFailed("a worker ended no step meanwhile; measure for longer (--seconds)")
        return sum((late.trained - early.trained) / (late.at_s - early.at_s) for early, late in spans)

    async def _all_train(self, reports: RedisReports, size: int) -> None:
        deadline_s = time.monotonic() + self._terms.start_within_s
        while sum(report.trained > 0 for report in (await _by_worker(reports)).values()) < size:
            self._crew.check()
            if time.monotonic() > deadline_s:
                raise ProfileFailed(
                    f"{size} workers did not all train within {self._terms.start_within_s:g} s; "
                    "give them longer with --start-within"
                )
            await asyncio.sleep(_LOOK_S)


async def _by_worker(reports: RedisReports) -> dict[str, WorkerReport]:
    return {report.worker: report for report in await reports.reports()}


def _scratch(settings: Settings, job: str, *, redis: str, directory: Path) -> Settings:
    """The job as the profile's workers see it."""
    own = settings.jobs[job]
    wanted = own.model_copy(
        update={
            "group": f"{own.group_of(job)}-profile-{uuid.uuid4().hex[:8]}",
            "shuffle": own.shuffle.model_copy(update={"mode": Shuffle.LEASES, "start": "earliest"}),
            "parameters": own.parameters.model_copy(update={"directory": directory / "parameters"}),
        }
    )
    return settings.model_copy(update={"redis": RedisSettings(url=redis), "jobs": {job: wanted}})


def _kept(settings: Settings, job: str) -> int:
    """How many offsets Kafka still has of the topic; of a compacted one, fewer are samples."""
    topic, client = settings.jobs[job].topic, settings.kafka.client()
    ends = end_offsets(client, topic, timeout_s=_KAFKA_S)
    begins = begin_offsets(AdminClient({**client, "log_level": 2}), topic, ends, timeout_s=_KAFKA_S)
    return sum(ends[partition] - begin for partition, begin in begins.items())


def _forget_group(settings: Settings, job: str) -> None:
    group = settings.jobs[job].group_of(job)
    admin = AdminClient({**settings.kafka.client(), "log_level": 2})
    with suppress(
        KafkaException
    ):  # not every broker keeps a group that has no members, nor lets one delete it
        admin.delete_consumer_groups([group], request_timeout=_KAFKA_S)[group].result(_KAFKA_S)
        return
    log.info("profile_group_left", group=group)
