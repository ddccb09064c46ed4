"""A worker's life: connect, get ready, train what the ledger hands out, leave in order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import structlog

from services.settings.root import Settings
from services.store.reports import ReportWriter
from services.stream.errors import SourceMissing, StreamError
from services.stream.sdk import stream
from services.trainer.departure import Departure
from services.trainer.device import EmulatedDevice
from services.trainer.telemetry import Reporter, Tally

_log = structlog.get_logger(__name__)

READY_FILE: Final = "PENSTOCK_READY_FILE"
"""Names the file that the worker makes once it is ready to train."""

EXIT_DRAINED: Final = 0
EXIT_NO_TOPIC: Final = 66
EXIT_UNAVAILABLE: Final = 69

_REPORT_S: Final = 1.0


def run_worker(settings: Settings, job: str, worker: str, *, connect_s: float) -> int:
    """Train `job` until SIGTERM or SIGINT; the exit code.

    Kafka and Redis have `connect_s` to answer for the first time; afterwards the worker waits for
    them however long they are away.
    """
    log = _log.bind(job=job, worker=worker)
    with Departure() as departure:
        try:
            _live(settings, job, worker, departure, connect_s=connect_s)
        except SourceMissing as error:
            log.critical("worker_gave_up", why=str(error))
            return EXIT_NO_TOPIC
        except StreamError as error:
            log.critical("worker_gave_up", why=str(error))
            return EXIT_UNAVAILABLE
    log.info("worker_left")
    return EXIT_DRAINED


def _live(settings: Settings, job: str, worker: str, departure: Departure, *, connect_s: float) -> None:
    """From the first connection to the last commit. Raises StreamError."""
    log = _log.bind(job=job, worker=worker)
    wanted = settings.jobs[job].worker
    with ExitStack() as stack:
        batches = stack.enter_context(
            stream(settings, job, worker=worker, connect_s=connect_s, stopping=departure.asked)
        )
        departure.begins_with(batches.stop)
        log.info("worker_connected", pid=os.getpid())
        departure.asked.wait(wanted.startup_s)
        device = EmulatedDevice(step_ms=wanted.pace_ms, batch=wanted.batch)
        tally = stack.enter_context(_reporting(settings, job, worker))
        _say_ready()
        log.info("worker_ready")
        for batch in batches:
            tally.step_began()
            device.step(len(batch))
            batch.done()
            tally.step_ended(len(batch))


@contextmanager
def _reporting(settings: Settings, job: str, worker: str) -> Iterator[Tally]:
    """A tally that is reported from now on, and forgotten in the end."""
    redis = settings.redis
    tally = Tally(worker)
    writer = ReportWriter(redis.url, job, prefix=redis.prefix, timeout_s=redis.timeout_s)
    with writer, Reporter(tally, writer, every_s=min(_REPORT_S, settings.controller.tick_s)):
        yield tally


def _say_ready() -> None:
    path = os.environ.get(READY_FILE)
    if path:
        Path(path).touch()
