"""Learning from the stream: decode, pull, compute and push, each batch while the others are under way.

    stream ─► fetcher: decode, pull ─► here: compute ─► pusher: push, done()

A batch is done when every shard has taken its gradients in, and not before. `staleness` bounds how
many batches are between their pull and that moment: parameters are never older than that to their worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Final

import numpy as np
import structlog

from estimator.throughput import StepTimes
from services.samples.decode import decode
from services.samples.layout import Floats, Samples
from services.stream.batch import Batch
from services.stream.ports import BatchStream
from services.trainer.dead_letters import DeadLetters
from services.trainer.device import Device
from services.trainer.evaluation import OnlineEvaluation
from services.trainer.net import Lesson, Net, NetShape
from services.trainer.ps.client import Keyed, ParameterClient, Pulled
from services.trainer.telemetry import Tally

_log = structlog.get_logger(__name__)

_AGE_MAX_S: Final = 1e10
"""No sample is older, whatever it says: the sum of times such as 1e308 is no number, and the controller takes
no report with one."""


class ModelMismatch(Exception):
    """The parameter server holds a model of another shape than this worker's."""

    def __init__(self, there: int, here: int) -> None:
        super().__init__(
            f"the parameter server's dense part has {there} numbers, this worker's model {here}; set "
            "parameters.dim, parameters.hidden and the fields back, or give the shards another directory"
        )


@dataclass(slots=True)
class Step:
    """One batch on its way through."""

    batch: Batch
    samples: Samples
    keyed: Keyed
    pulled: Pulled
    input_s: float
    pull_s: float
    began_s: float
    version: int = 0
    """Batches that the parameter server had taken in when this one was pulled."""
    compute_s: float = 0.0
    starved_s: float = 0.0
    lesson: Lesson | None = None


@dataclass(frozen=True, slots=True)
class Workbench:
    """What a learner works with."""

    shape: NetShape
    net: Net
    pace: Device
    """Makes a step take as long as it would on the device that is played."""
    puller: ParameterClient
    pusher: ParameterClient
    """A connection of its own: a push does not wait for a pull."""
    first_dense: Floats
    letters: DeadLetters
    evaluation: OnlineEvaluation
    staleness: int = 2


class Learner:
    """Trains every batch of a stream. One use; `run` returns when the stream has ended."""

    def __init__(
        self,
        batches: BatchStream,
        bench: Workbench,
        tally: Tally,
        *,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._batches = batches
        self._with = bench
        self._tally = tally
        self._now_s = now_s
        self._room = Semaphore(bench.staleness)
        self._to_compute: SimpleQueue[Step | None] = SimpleQueue()
        self._to_push: SimpleQueue[Step | None] = SimpleQueue()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Raises what went wrong in any of the three threads, after all have ended."""
        fetcher = Thread(target=self._guard, args=(self._fetch,), name="fetcher", daemon=True)
        pusher = Thread(target=self._guard, args=(self._push,), name="pusher", daemon=True)
        fetcher.start()
        pusher.start()
        self._guard(self._compute)
        self._to_push.put(None)
        pusher.join()
        fetcher.join()
        if self._failure is not None:
            raise self._failure

    def _guard(self, task: Callable[[], None]) -> None:
        """Whoever fails ends the others; the first failure is the one that is told."""
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - raised again by run()
            self._failure = self._failure or error
            self._batches.close()
            self._to_compute.put(None)
            self._to_push.put(None)
            self._room.release()

    def _fetch(self) -> None:
        while True:
            self._room.acquire()
            batch = next(self._batches, None) if self._failure is None else None
            if batch is None:
                self._to_compute.put(None)
                return
            self._tally.step_began()
            step = self._prepared(batch)
            if step is None:
                self._leave(batch)
            else:
                self._to_compute.put(step)

    def _prepared(self, batch: Batch) -> Step | None:
        """Decoded and with its parameters; None when no message of it is a sample."""
        began_s = time.monotonic()
        decoded = decode([message.value() for message in batch.samples], self._with.shape.sample)
        if decoded.rejected:
            self._with.letters.put(batch.samples, decoded.rejected)
            self._with.evaluation.rejected(len(decoded.rejected))
        if not len(decoded.samples):
            return None
        self._with.puller.since(batch.epoch)
        keyed = self._with.puller.keyed(self._with.shape.crossed(decoded.samples.ids))
        decoded_s = time.monotonic()
        pulled = self._pulled(keyed)
        pull_s = time.monotonic() - decoded_s
        version = self._with.puller.version
        return Step(batch, decoded.samples, keyed, pulled, decoded_s - began_s, pull_s, began_s, version)

    def _pulled(self, keyed: Keyed) -> Pulled:
        pulled = self._with.puller.pull(keyed)
        if not len(pulled.dense):  # the first worker ever, or the shard came back with nothing
            self._with.puller.begin(self._with.first_dense)
            pulled = self._with.puller.pull(keyed)
        if len(pulled.dense) != self._with.shape.dense_size:
            raise ModelMismatch(len(pulled.dense), self._with.shape.dense_size)
        return pulled

    def _compute(self) -> None:
        free_s = float("-inf")
        while (step := self._to_compute.get()) is not None:
            began_s = time.monotonic()
            # Before the batch was there the device waited for traffic, which is no fault of the pipeline's.
            step.starved_s = began_s - max(free_s, step.began_s)
            samples = step.samples
            step.lesson = self._with.net.learn(
                step.pulled.rows, samples.numbers, samples.labels, step.pulled.dense
            )
            self._with.pace.step(len(step.batch))
            free_s = time.monotonic()
            step.compute_s = free_s - began_s
            if step.lesson.sound:
                self._to_push.put(step)
            else:
                self._with.evaluation.skipped()
                first = step.batch.samples[0]
                _log.error(
                    "batch_skipped",
                    partition=first.partition(),
                    offset=first.offset(),
                    why="loss is no number",
                )
                self._leave(step.batch)

    def _push(self) -> None:
        while (step := self._to_push.get()) is not None and step.lesson is not None:
            began_s = time.monotonic()
            self._with.pusher.since(step.batch.epoch)
            self._with.pusher.push(step.keyed, step.lesson.rows, step.lesson.dense)
            push_s = time.monotonic() - began_s
            step.batch.done()
            ages_s = np.clip(self._now_s() - step.samples.at_s, -_AGE_MAX_S, _AGE_MAX_S)
            # Its own is not among the others; a shard that came back counts from an earlier number.
            stale = max(0, self._with.pusher.version - step.version - 1)
            self._with.evaluation.trained(
                step.samples.labels, step.lesson.chances, age_s=float(ages_s.mean()), stale_batches=stale
            )
            wait_s = step.pull_s + push_s
            times = StepTimes(step.input_s, step.compute_s, wait_s, step.pull_s, step.starved_s)
            self._tally.step_ended(len(step.batch), times)
            self._room.release()

    def _leave(self, batch: Batch) -> None:
        """Nothing is to be learned from it: it is over all the same, or it would come back for ever."""
        batch.done()
        self._tally.step_ended(len(batch))
        self._room.release()
