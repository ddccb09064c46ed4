"""What it costs to make every job's wish on every type, as the live controller does under contention."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from estimator.capacity import Capacity
from estimator.fleet import Standing
from estimator.rules import rule_named
from estimator.situation import Limits, Slo
from estimator.throughput import GpuTypes, Guess, ThroughputWindow
from services.control.decide import decide
from services.control.fleet_wish import Word, wish_of
from services.control.learned import Throughput
from services.control.types import ControlState, Decision, Observation, Policy, PoolState, TrafficReading

JOBS, WORKERS = 1000, 8
SPEEDS = {"a100": 3.0, "v100": 1.6, "t4": 1.0, "l4": 1.3}

Flat = dict[str, float]


def wish_time(options: argparse.Namespace) -> Flat:
    """CPU-seconds for the wishes of 1,000 jobs on 4 types of up to 32 workers: one seen, three borrowed."""
    del options
    pool = PoolState(WORKERS, by_type=dict.fromkeys(SPEEDS, 0) | {"a100": WORKERS})
    seen = Observation("job", 1000.0, TrafficReading(1000.0, 8000.0, 8000.0, 0, 0.0), pool, (), 1)
    decision = _decision(seen)
    words = [
        Word(
            replace(decision, planned=4 + number % 12),
            Standing(f"job-{number}", guaranteed=2, gpu_types=tuple(SPEEDS), workers_max=32),
            seen,
            60.0,
            "a100",
            tuple(SPEEDS),
        )
        for number in range(JOBS)
    ]
    wish_of(words[0])
    before = time.process_time()
    for word in words:
        wish_of(word)
    return {"wishes_cpu_s": time.process_time() - before, "wishes_jobs": float(JOBS)}


def _decision(seen: Observation) -> Decision:
    """Of a job that has been seen at three sizes on one type and profiled on the others."""
    guess = Guess(1000.0, 0.02, {kind: 1000.0 * speed for kind, speed in SPEEDS.items()})
    types = GpuTypes()
    for minute in range(60):
        workers = (2, 4, 8)[minute % 3]
        rate = 3000.0 * workers / (1 + 0.02 * (workers - 1))
        window = ThroughputWindow(60.0 * minute + 60.0, workers, rate, busy=float(workers), gpu_type="a100")
        types = types.seen(window, guess)
    policy = Policy(Slo(60.0, 0.01), Limits(1, 32), rule_named("reactive", {}), Capacity(1000.0), 120.0)
    decision = decide(seen, ControlState(planned=WORKERS), policy)
    known = Throughput(types, "a100", guess=guess)
    return replace(decision, state=replace(decision.state, throughput=known))
