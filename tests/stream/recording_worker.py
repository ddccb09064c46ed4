"""A worker process for tests: writes down every sample that it trains."""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import time
from pathlib import Path
from typing import Any

from services.settings import Settings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.stream.plan import StreamPlan
from services.stream.redis_ledger import RedisLedger
from services.stream.sdk import stream
from services.trainer.departure import Departure
from tests.waiting import eventually


def die_at_the_turn(settings: Settings, job: str) -> None:
    """A worker that is killed between taking the turn to commit and ending it."""
    terms = StreamPlan.of(job, settings.jobs[job]).terms
    with connect_sync(settings.redis) as client:
        ledger = RedisLedger(client, Keys(settings.redis.prefix), job, terms)
        eventually(lambda: ledger.take_turn("killed", every_s=0.0), what="its turn")
        os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    """As a driver's call for a GPU that does not answer: no handler of Python's runs ever again."""
    mutex, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
    for _ in range(2):
        libc.pthread_mutex_lock(mutex)


def train(told: dict[str, Any]) -> None:
    """Train until SIGTERM; one line for each sample, written before it is done."""
    for name, value in told["constants"].items():
        module, _, constant = name.rpartition(".")
        assert hasattr(importlib.import_module(module), constant), f"there is no {name}"
        setattr(importlib.import_module(module), constant, value)
    settings, poison = Settings.model_validate(told["settings"]), told["poison"].encode()
    with (
        Departure() as departure,
        Path(told["record"]).open("a", encoding="ascii") as record,
        stream(settings, told["job"], worker=told["worker"], stopping=departure.asked) as batches,
    ):
        departure.begins_with(batches.stop)
        for batch in batches:
            if poison in {sample.value() for sample in batch.samples if sample.value()}:
                os._exit(3)
            time.sleep(told["step_s"])
            if told.get("hangs"):
                hang()
            record.writelines(f"{sample.partition()} {sample.offset()}\n" for sample in batch.samples)
            record.flush()
            batch.done()
