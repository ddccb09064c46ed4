"""Play a short demo, record it, and check its simulation against it: `python -m benchmarks.sim_to_real`.

Leaves the recording for `penstock backtest --replay FILE`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median

from rich.console import Console

from services.control.loop import Tick
from services.control.types import Observation, Reason, WorkerPhase
from services.demo.audience import Headless
from services.demo.run import run_demo
from services.demo.scenario import JOB, PARTITIONS, Scenario
from services.simulator.plant import Plant
from services.simulator.recorded import RecordedTick, Recording, compare, write_recording


class Recorder(Headless):
    """Keeps what every tick saw, and measures the plant by the way."""

    def __init__(self) -> None:
        super().__init__()
        self.ticks: list[RecordedTick] = []
        self._first_s: float | None = None
        self._asked_s: dict[str, float] = {}
        self._ready: set[str] = set()
        self._startups: list[float] = []
        self._startups_together: list[float] = []
        """Of a run-up: all start at once there, and so take longer than when a rule asks for them."""
        self._speeds: list[float] = []

    def told(self, tick: Tick) -> None:
        """Keep it."""
        super().told(tick)
        if tick.seen is not None and tick.error is None:
            overridden = tick.decision is not None and tick.decision.reason is Reason.OVERRIDE
            self._keep(tick.seen, by_hand=overridden)

    def _keep(self, seen: Observation, *, by_hand: bool) -> None:
        for worker in seen.pool.workers:
            self._asked_s.setdefault(worker.id, min(worker.started_at_s, seen.at_s))
            if worker.phase is WorkerPhase.READY and worker.id not in self._ready:
                self._ready.add(worker.id)
                (self._startups_together if by_hand else self._startups).append(
                    seen.at_s - self._asked_s[worker.id]
                )
        self._speeds += [report.rate_per_busy_s for report in seen.reports if report.busy > 0.3]
        if not self._ready:
            return  # nothing trains yet: the simulation starts with workers too
        self._first_s = seen.at_s if self._first_s is None else self._first_s
        self.ticks.append(
            RecordedTick(
                second=round(seen.at_s - self._first_s, 3),
                rate_per_s=round(seen.traffic.rate_per_s, 3),
                requested=seen.pool.requested,
                held=sum(worker.phase is not WorkerPhase.FAILED for worker in seen.pool.workers),
                lag=seen.traffic.lag,
                lag_s=round(seen.traffic.lag_s, 3),
            )
        )

    def plant(self, scenario: Scenario) -> Plant:
        """The plant as this run showed it."""
        return plant_of(
            scenario,
            rate_per_worker=round(median(self._speeds), 1),
            startup_s=round(median(self._startups or self._startups_together), 1),
        )


def plant_of(scenario: Scenario, *, rate_per_worker: float, startup_s: float) -> Plant:
    """The scenario's plant with workers as they were measured."""
    job = scenario.settings(
        kafka="localhost:1", redis="redis://localhost:1", prefix="x", topic="x", run_dir=Path("run")
    ).jobs[JOB]
    return Plant(
        rate_per_worker=rate_per_worker,
        contention=0.0,
        startup_s=startup_s,
        slo_s=job.slo.fresh_within_s,
        workers_min=job.scaling.workers_min,
        workers_max=job.scaling.workers_max,
        partitions=PARTITIONS,
        tick_s=1,
        warmup_days=0,
    )


def main() -> None:
    """Record, write, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--policy", default="reactive", choices=["reactive", "hpa"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/demo-run.json"))
    options = parser.parse_args()
    scenario = Scenario(minutes=options.minutes, seed=options.seed, rule=options.policy)
    recorder = Recorder()
    report = run_demo(scenario, recorder, kafka=None, redis=None)
    job = scenario.settings(
        kafka="localhost:1", redis="redis://localhost:1", prefix="x", topic="x", run_dir=Path("run")
    ).jobs[JOB]
    recording = Recording(
        rule=options.policy,
        rule_options=job.scaling.rule_options,
        plant=recorder.plant(scenario),
        late_share=report.late_share,
        ticks=tuple(recorder.ticks),
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_recording(options.out, recording)
    comparison = compare(recording)
    Console().print(comparison.table())
    sys.exit(0 if comparison.agrees else 1)


if __name__ == "__main__":
    main()
