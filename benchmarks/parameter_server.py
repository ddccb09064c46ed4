"""A parameter server and its workers, event by event: worlds that no formula of the estimator made.

Workers compute, ask every shard, wait for the slowest, and start again. Shards serve one
request at a time, in order. With traffic below capacity, idle workers wait for a batch.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from enum import IntEnum

WARM_STEPS = 400


@dataclass(frozen=True, slots=True)
class ParameterServer:
    """Mean times of one step, in seconds."""

    shards: tuple[float, ...]
    """Service at each shard."""
    compute_s: float = 0.05
    input_s: float = 0.0
    """Reading the batch, beside the compute of the one before."""
    service_cv2: float = 1.0
    own_cv2: float = 0.05
    latency_s: float = 0.0
    """The network's part of a request, there and back."""
    background: float = 0.0
    """Share of every shard that serves others."""
    prefetch: bool = False
    """Ask the shards while computing."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What telemetry would say after `steps` steps."""

    steps_per_s: float
    busy: float
    input_s: float
    compute_s: float
    wait_s: float
    shard_busy: tuple[float, ...]
    shard_cv2: tuple[float, ...]


class _Event(IntEnum):
    BATCH = 0
    BEGIN = 1
    ARRIVE = 2
    ANSWER = 3
    END = 4


class _Tally:
    """Sums since the warm-up ended."""

    def __init__(self, shards: int) -> None:
        self.busy_s = self.input_s = self.compute_s = self.wait_s = 0.0
        self.service_s = [0.0] * shards
        self.service_squared = [0.0] * shards
        self.requests = 0

    def measured(self, steps: int, span_s: float, background: float) -> Measured:
        means = [total / self.requests for total in self.service_s]
        pairs = zip(self.service_squared, means, strict=True)
        return Measured(
            steps / span_s,
            self.busy_s / span_s,
            self.input_s / steps,
            self.compute_s / steps,
            self.wait_s / steps,
            tuple(min(1.0, total / span_s + background) for total in self.service_s),
            tuple(max(0.0, squared / self.requests / mean**2 - 1) for squared, mean in pairs),
        )


class _Run:
    """One simulation; see `measure`."""

    def __init__(self, ps: ParameterServer, workers: int, traffic: float | None, seed: int) -> None:
        self.ps, self.traffic = ps, traffic
        self.draw = random.Random(f"{seed}/{workers}/{traffic}")  # noqa: S311
        self.events: list[tuple[float, int, _Event, int]] = []
        self.free_at = [0.0] * len(ps.shards)
        self.began = [0.0] * workers
        self.asked = [0.0] * workers
        self.computed = [0.0] * workers
        self.idle = list(range(workers)) if traffic else []
        self.waiting = self.pushed = self.done = 0
        self.tally = _Tally(len(ps.shards))
        if traffic:
            self._push(0.0, _Event.BATCH, -1)
        else:
            for worker in range(workers):
                self._push(self.draw.random() * ps.compute_s, _Event.BEGIN, worker)

    def run(self, steps: int) -> Measured:
        since_s = 0.0
        now_s = 0.0
        while self.done < steps + WARM_STEPS:
            now_s, _, event, worker = heapq.heappop(self.events)
            self._happen(now_s, event, worker)
            if event is _Event.END and self.done == WARM_STEPS:
                since_s, self.tally = now_s, _Tally(len(self.ps.shards))
        return self.tally.measured(steps, now_s - since_s, self.ps.background)

    def _happen(self, now_s: float, event: _Event, worker: int) -> None:
        if event is _Event.BATCH:
            self._push(now_s + self.draw.expovariate(self.traffic or 1.0), _Event.BATCH, -1)
            if self.idle:
                self._push(now_s, _Event.BEGIN, self.idle.pop())
            else:
                self.waiting += 1
        elif event is _Event.BEGIN:
            self._begin(now_s, worker)
        elif event is _Event.ARRIVE:
            self._push(self._served(now_s) + self.ps.latency_s / 2, _Event.ANSWER, worker)
        elif event is _Event.ANSWER:
            self.tally.wait_s += now_s - self.asked[worker]
            self._push(max(now_s, self.computed[worker]), _Event.END, worker)
        else:
            self._end(now_s, worker)

    def _begin(self, now_s: float, worker: int) -> None:
        input_s = self._drawn(self.ps.input_s, self.ps.own_cv2)
        compute_s = self._drawn(self.ps.compute_s, self.ps.own_cv2)
        self.tally.input_s += input_s
        self.tally.compute_s += compute_s
        self.began[worker] = now_s
        self.computed[worker] = now_s + max(input_s, compute_s)
        self.asked[worker] = now_s if self.ps.prefetch else self.computed[worker]
        self._push(self.asked[worker] + self.ps.latency_s / 2, _Event.ARRIVE, worker)

    def _served(self, now_s: float) -> float:
        """When the slowest shard has served a request that arrives now."""
        last_s = now_s
        self.tally.requests += 1
        for shard, mean_s in enumerate(self.ps.shards):
            service_s = self._drawn(mean_s, self.ps.service_cv2)
            start_s = max(now_s, self.free_at[shard])
            self.free_at[shard] = start_s + service_s / (1 - self.ps.background)
            self.tally.service_s[shard] += service_s
            self.tally.service_squared[shard] += service_s**2
            last_s = max(last_s, self.free_at[shard])
        return last_s

    def _end(self, now_s: float, worker: int) -> None:
        self.done += 1
        self.tally.busy_s += now_s - self.began[worker]
        if self.traffic is None:
            self._push(now_s, _Event.BEGIN, worker)
        elif self.waiting:
            self.waiting -= 1
            self._push(now_s, _Event.BEGIN, worker)
        else:
            self.idle.append(worker)

    def _drawn(self, mean_s: float, cv2: float) -> float:
        if mean_s <= 0 or cv2 <= 0:
            return mean_s
        return self.draw.gammavariate(1 / cv2, mean_s * cv2)

    def _push(self, at_s: float, event: _Event, worker: int) -> None:
        self.pushed += 1
        heapq.heappush(self.events, (at_s, self.pushed, event, worker))


def measure(
    ps: ParameterServer, workers: int, *, traffic: float | None = None, steps: int = 2500, seed: int = 0
) -> Measured:
    """Run `workers` workers for `steps` steps; `traffic` in batches a second, None for all they can take."""
    return _Run(ps, workers, traffic, seed).run(steps)
