"""Throughput against workers with an emulated device and shard, beside what the throughput model foretold."""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import fmean

import yaml

from benchmarks.trainer_single import JOB, fill, started_process
from estimator.throughput import ResourceLoad, StepTimes, ThroughputModel, ThroughputWindow
from services.control.types import WorkerReport
from services.embedded.librdkafka import EmbeddedKafka
from services.embedded.redis import EmbeddedRedis
from services.settings import Settings
from services.store.connect import connect, connect_sync
from services.store.keys import Keys
from services.store.reports import RedisReports
from services.stream.redis_ledger import RedisLedger
from services.traffic.clicks import ClickMaker
from shuffler.ledger import Terms

SIZES = (1, 2, 3, 4, 6, 8)
_BATCH = 64
_STEP_MS = 120.0
_SERVICE_MS = 12.0
"""Of a pull and of a push: the shard's limit is 1000 / 24 steps a second, that of some five workers."""
_SETTLE_S = 4.0
_WINDOW_S = 12.0


def curve() -> dict[str, float]:
    """Samples a second by workers; what the model said of each size before it was tried, and its error."""
    figures: dict[str, float] = {}
    model = ThroughputModel.guessed(_BATCH / (_STEP_MS / 1000.0))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kafka = stack.enter_context(EmbeddedKafka(brokers=1))
        redis = stack.enter_context(EmbeddedRedis())
        kafka.create_topic(JOB, 16)
        fill(kafka.bootstrap, ClickMaker().draw(250_000, at_s=time.time(), simulated_s=0.0).samples)
        settings = _settings(kafka.bootstrap, redis.url, folder)
        config = folder / "penstock.yaml"
        config.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
        stack.enter_context(started_process(folder, config, "shard"))
        client = stack.enter_context(closing(connect_sync(settings.redis)))
        ledger = RedisLedger(client, Keys("penstock"), JOB, Terms())
        workers = 0
        for size in SIZES:
            while workers < size:
                options = ("--worker-id", f"w{workers}")
                stack.enter_context(started_process(folder, config, "worker", *options))
                workers += 1
            time.sleep(_SETTLE_S)
            window = _window(settings, ledger, size)
            figures[f"workers_{size}_per_s"] = window.samples_per_s
            if size > 2:  # two sizes are the least from which a curve can be told
                foretold = model.samples_per_s(size)
                figures[f"workers_{size}_foretold_per_s"] = foretold
                figures[f"workers_{size}_error"] = foretold / window.samples_per_s - 1
            for _ in range(2):  # the first window after a resize is not learned from
                model = model.seen(window)
    return figures


def _settings(kafka: str, redis: str, folder: Path) -> Settings:
    job = {
        "topic": JOB,
        "shuffle": {"start": "earliest"},
        "worker": {"device": "numpy", "batch": _BATCH, "step_ms": _STEP_MS},
        "parameters": {"service_ms": _SERVICE_MS, "directory": str(folder)},
    }
    return Settings.model_validate(
        {"kafka": {"bootstrap": kafka}, "redis": {"url": redis}, "jobs": {JOB: job}}
    )


def _window(settings: Settings, ledger: RedisLedger, workers: int) -> ThroughputWindow:
    """What the controller would gather of one window in which samples always waited."""
    began_s, before = time.monotonic(), ledger.progress().trained
    told: list[tuple[WorkerReport, ...]] = []
    while time.monotonic() - began_s < _WINDOW_S:
        time.sleep(1.0)
        told.append(asyncio.run(_reports(settings)))
    rate = (ledger.progress().trained - before) / (time.monotonic() - began_s)
    reports = [report for reports in told for report in reports]
    steps = [report.steps for report in reports if report.steps is not None]
    loads = [load for report in reports for load in report.resources]
    return ThroughputWindow(
        at_s=time.time(),
        ready=workers,
        samples_per_s=rate,
        busy=sum(report.busy for report in reports) / len(told),
        saturated=True,
        batch=_BATCH,
        steps=StepTimes(
            fmean(step.input_s for step in steps),
            fmean(step.compute_s for step in steps),
            fmean(step.wait_s for step in steps),
        ),
        resources=(
            ResourceLoad(
                "shard-0",
                fmean(load.busy for load in loads),
                fmean(load.service_cv2 or 0.0 for load in loads),
            ),
        ),
    )


async def _reports(settings: Settings) -> tuple[WorkerReport, ...]:
    client = connect(settings.redis)
    try:
        return await RedisReports(client, Keys(settings.redis.prefix), JOB).reports()
    finally:
        await client.aclose()
