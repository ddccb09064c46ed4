"""A worker's life: connect, get ready, train what the ledger hands out, leave in order."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Final

import structlog

from estimator.throughput import ResourceLoad
from services.control.errors import StateUnavailable
from services.control.types import ShardFigures
from services.samples.layout import SampleShape
from services.settings.root import Settings
from services.store.connect import connect_sync
from services.store.errors import StateCorrupt
from services.store.keys import Keys
from services.store.reports import ReportWriter
from services.stream.drain_time import drain_time_s
from services.stream.errors import SourceMissing, StreamError
from services.stream.ports import BatchStream
from services.stream.sdk import stream
from services.trainer.dead_letters import DeadLetters
from services.trainer.departure import Departure
from services.trainer.device import EmulatedDevice
from services.trainer.evaluation import OnlineEvaluation
from services.trainer.gpu import gpu_meter
from services.trainer.learner import Learner, ModelMismatch, Workbench
from services.trainer.net import NetShape
from services.trainer.net_choice import DeviceMissing, net_on
from services.trainer.ps.client import ParameterClient
from services.trainer.ps.directory import RedisDirectory
from services.trainer.ps.errors import ShardError
from services.trainer.ready import say_ready
from services.trainer.telemetry import Reporter, Tally

_log = structlog.get_logger(__name__)

EXIT_DRAINED: Final = 0
EXIT_NO_TOPIC: Final = 66
EXIT_UNAVAILABLE: Final = 69
EXIT_NO_DEVICE: Final = 78

_REPORT_S: Final = 1.0


def run_worker(settings: Settings, job: str, worker: str, *, connect_s: float) -> int:
    """Train `job` until SIGTERM or SIGINT; the exit code.

    Kafka, Redis and the parameter server have `connect_s` to answer for the first time; afterwards the
    worker waits for them however long they are away.
    """
    log = _log.bind(job=job, worker=worker)
    with Departure() as departure:
        try:
            _live(settings, job, worker, departure, connect_s=connect_s)
        except SourceMissing as error:
            log.critical("worker_gave_up", why=str(error))
            return EXIT_NO_TOPIC
        except (DeviceMissing, ModelMismatch) as error:
            log.critical("worker_gave_up", why=str(error))
            return EXIT_NO_DEVICE
        except (StreamError, ShardError, StateUnavailable, StateCorrupt) as error:
            log.critical("worker_gave_up", why=str(error))
            return EXIT_UNAVAILABLE
    log.info("worker_left")
    return EXIT_DRAINED


def _live(settings: Settings, job: str, worker: str, departure: Departure, *, connect_s: float) -> None:
    """From the first connection to the last commit. Raises StreamError, ShardError, DeviceMissing."""
    log = _log.bind(job=job, worker=worker)
    wanted = settings.jobs[job].worker
    with ExitStack() as stack:
        batches = stack.enter_context(
            stream(settings, job, worker=worker, connect_s=connect_s, stopping=departure.asked)
        )
        departure.begins_with(batches.stop)
        log.info("worker_connected", pid=os.getpid())
        departure.asked.wait(wanted.startup_s)
        pace = EmulatedDevice(step_ms=wanted.pace_ms, batch=wanted.batch)
        if wanted.device == "emulated":
            tally = stack.enter_context(_reporting(settings, job, Tally(worker)))
            say_ready()
            log.info("worker_ready")
            _play(batches, pace, tally)
            return
        bench = _workbench(settings, job, departure, stack, pace, connect_s=connect_s)
        tally = Tally(
            worker,
            batch=wanted.batch,
            shared=lambda: _loads(bench.pusher),
            shards=lambda: _figures(bench.pusher),
            quality=bench.evaluation.quality,
            gpu=gpu_meter(wanted.device),
        )
        stack.enter_context(_reporting(settings, job, tally))
        say_ready()
        log.info("worker_ready", device=wanted.device)
        Learner(batches, bench, tally).run()


def _play(batches: BatchStream, device: EmulatedDevice, tally: Tally) -> None:
    """Train nothing, for as long as it would take."""
    for batch in batches:
        tally.step_began()
        device.step(len(batch))
        batch.done()
        tally.step_ended(len(batch))


def _workbench(
    settings: Settings,
    job: str,
    departure: Departure,
    stack: ExitStack,
    pace: EmulatedDevice,
    *,
    connect_s: float,
) -> Workbench:
    """Everything loaded, and the parameter server heard once. Raises ShardError, DeviceMissing."""
    wanted, parameters = settings.jobs[job].worker, settings.jobs[job].parameters
    shape = NetShape(
        SampleShape(wanted.categorical, wanted.numeric), parameters.dim, parameters.hidden, wanted.crosses
    )
    net = net_on(wanted.device, shape)
    patience = _Patience(
        departure,
        until_s=time.monotonic() + connect_s,
        drain_s=drain_time_s(settings.jobs[job].pool),
    )
    puller, pusher = (_client(settings, job, stack, patience, row_size=shape.row_size) for _ in range(2))
    letters = stack.enter_context(closing(DeadLetters(settings.kafka, settings.jobs[job].topic)))
    puller.begin(shape.first_dense())
    patience.connected()
    return Workbench(
        shape=shape,
        net=net,
        pace=pace,
        puller=puller,
        pusher=pusher,
        first_dense=shape.first_dense(),
        letters=letters,
        evaluation=OnlineEvaluation(),
        staleness=wanted.staleness,
    )


def _client(
    settings: Settings, job: str, stack: ExitStack, patience: _Patience, *, row_size: int
) -> ParameterClient:
    """A way to the parameter server for one thread; the stack closes it."""
    parameters = settings.jobs[job].parameters
    store = stack.enter_context(closing(connect_sync(settings.redis)))
    client = ParameterClient(
        RedisDirectory(store, Keys(settings.redis.prefix), job, capacities=parameters.capacities),
        shards=parameters.shards,
        row_size=row_size,
        dense_shards=parameters.dense_shards,
        half=parameters.half,
        patient=patience,
    )
    return stack.enter_context(closing(client))


class _Patience:
    """How long to wait for the parameter server: a while at first, then for ever, and little when leaving."""

    def __init__(self, departure: Departure, *, until_s: float, drain_s: float) -> None:
        self._departure = departure
        self._until_s = until_s
        # Earlier than the pool loses its own patience: what is not trained is to be given back.
        self._drain_s = drain_s * 0.5
        self._leave_at_s: float | None = None

    def connected(self) -> None:
        """It has answered: from now on it is only away."""
        self._until_s = float("inf")

    def __call__(self) -> bool:
        if self._departure.asked.is_set() and self._leave_at_s is None:
            self._leave_at_s = time.monotonic() + self._drain_s
        return time.monotonic() < min(self._until_s, self._leave_at_s or float("inf"))


def _loads(client: ParameterClient) -> tuple[ResourceLoad, ...]:
    """What the shards said of themselves last, with the acknowledgement of a push."""
    return tuple(
        ResourceLoad(f"shard-{shard}", load.busy, load.service_cv2)
        for shard, load in sorted(client.loads.copy().items())
    )


def _figures(client: ParameterClient) -> tuple[ShardFigures, ...]:
    """Likewise, for people."""
    return tuple(
        ShardFigures(f"shard-{shard}", load.queue, load.rows, load.bytes_in, load.bytes_out)
        for shard, load in sorted(client.loads.copy().items())
    )


@contextmanager
def _reporting(settings: Settings, job: str, tally: Tally) -> Iterator[Tally]:
    """The tally is reported from now on, and forgotten in the end."""
    redis = settings.redis
    writer = ReportWriter(redis.url, job, prefix=redis.prefix, timeout_s=redis.timeout_s)
    with writer, Reporter(tally, writer, every_s=min(_REPORT_S, settings.controller.tick_s)):
        yield tally
