"""What a demo plays: the traffic, the job that trains on it, and their scale in time."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from estimator.rules import takes
from estimator.rules.tempo import OPTION
from forecasting.history import TrafficHistory
from services.settings import Settings
from services.traffic.clicks import CLICK_CROSSES
from services.traffic.shape import DAY_S, MONDAY_S, FlashCrowd, SyntheticTraffic, counted, played

JOB = "demo"
START_S = MONDAY_S + 15 * 3600.0
"""Monday at three in the afternoon: the evening's rise lies ahead."""
CROWD_AFTER_S = 3600.0
PARTITIONS = 16
HISTORY_DAYS = 14.0
SHARDS = 1
"""Of the parameter server."""
TRAIN_CPU_S = 20.0
"""For training the transformer, at a lower priority, on one core."""

WORKERS_MAX = 12

_IN_WALL_TIME = {
    "settle_s": 8.0,
    "catch_up_s": 5.0,
    "look_ahead_s": 6.0,
    "window_s": 3.0,
    "down_window_s": 8.0,
}
_LAG_THRESHOLD_S = 10.0
_BATCH = 64
_STEP_MS = 128.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """A synthetic day at `speed_up` simulated seconds a wall second. Rates are per wall second."""

    minutes: float = 10.0
    speed_up: float = 144.0
    mean_per_s: float = 1500.0
    seed: int = 1
    rule: str = "penstock"
    run_up_s: float = 0.0
    """Wall seconds played before the figures count, with a pool that is set by hand: the rule then finds one
    that is warm and has no backlog."""

    @property
    def begin_s(self) -> float:
        """The simulated time at which traffic begins: what counts begins at `START_S`."""
        return START_S - self.run_up_s * self.speed_up

    @property
    def shape(self) -> SyntheticTraffic:
        """Days, weeks, noise and one flash crowd, an hour after the start."""
        crowd = FlashCrowd(START_S + CROWD_AFTER_S, height=1.0, rise_s=900.0, fall_s=1500.0)
        return SyntheticTraffic(mean_per_s=self.mean_per_s, seed=self.seed, crowds=(crowd,))

    @property
    def step_s(self) -> float:
        """Five simulated minutes, in wall seconds."""
        return 300.0 / self.speed_up

    @property
    def rate_per_worker(self) -> float:
        """What the emulated device trains in a second."""
        return _BATCH / (_STEP_MS / 1000.0)

    @property
    def rule_options(self) -> dict[str, float]:
        """What the rule is told, in wall time.

        A rule's own times run at the demo's speed. But workers start, leases end and meters measure at
        the speed of this machine, so what waits for those is told in seconds that leave them room.
        """
        if self.rule in {"static-max", "static-mean"}:
            return {"workers": float(self.workers_known_beforehand)}
        options = {name: value for name, value in _IN_WALL_TIME.items() if takes(self.rule, name)}
        if takes(self.rule, "lag_threshold"):
            options["lag_threshold"] = _LAG_THRESHOLD_S * self.rate_per_worker
        # A rule that knows how long a day is needs no other hint.
        return options if takes(self.rule, "season_s") else {**options, OPTION: self.speed_up}

    @property
    def workers_known_beforehand(self) -> int:
        """A fixed pool, sized from the traffic to come: for its peak at 80 %, or for its mean."""
        minutes = START_S + np.arange(0.0, max(self.minutes * 60.0 * self.speed_up, 60.0), 60.0)
        rates = self.shape.rates(minutes)
        demand = float(rates.max() / 0.8 if self.rule == "static-max" else rates.mean())
        return self._workers_for(demand)

    @property
    def workers_at_start(self) -> int:
        """A pool for the first minute that counts, at 80 %: what the simulator starts with, too."""
        first = self.shape.rates(START_S + np.arange(60.0))
        return self._workers_for(float(first.mean()) / 0.8)

    def _workers_for(self, rate_per_s: float) -> int:
        return min(max(math.ceil(rate_per_s / self.rate_per_worker - 1e-9), 1), WORKERS_MAX)

    def history(self, *, until_s: float) -> TrafficHistory:
        """The two weeks before the start as a meter would have seen them, played until `until_s`."""
        past = self.shape.history(until_s=self.begin_s, step_s=300.0, days=HISTORY_DAYS)
        return counted(played(past, speed_up=self.speed_up, end_s=until_s), seed=self.seed)

    def traffic_command(self, *, kafka: str, topic: str, report: Path, elapsed_s: float) -> list[str]:
        """The generator's command line, `elapsed_s` wall seconds into the run: a killed one goes on there."""
        now_s = self.begin_s + elapsed_s * self.speed_up
        crowds = [
            f"--crowd={(crowd.start_s - now_s) / 3600.0}:{crowd.height}:{crowd.rise_s}:{crowd.fall_s}"
            for crowd in self.shape.crowds
        ]
        return [
            *(sys.executable, "-m", "services.cli.main", "traffic"),
            *("--kafka", kafka, "--topic", topic, "--report", str(report)),
            *("--rate", str(self.mean_per_s), "--speed-up", str(self.speed_up)),
            *("--start", str(now_s), "--seed", str(self.seed), *crowds),
        ]

    def settings(self, *, kafka: str, redis: str, prefix: str, topic: str, run_dir: Path) -> Settings:
        """Settings of a controller for this scenario: everything that is minutes in life is seconds here."""
        return Settings.model_validate(
            {
                "kafka": {"bootstrap": kafka},
                "redis": {"url": redis, "prefix": prefix},
                "api": {"port": 0, "operations_port": 0},
                "controller": {
                    "tick_s": 1.0,
                    "stale_after_s": 10.0,
                    "leader_ttl_s": 5.0,
                    "models_dir": str(run_dir.with_name("models")),
                },
                "jobs": {JOB: self._job(topic, run_dir)},
            }
        )

    def _job(self, topic: str, run_dir: Path) -> dict[str, Any]:
        return {
            "topic": topic,
            "slo": {"fresh_within_s": 10.0},
            "scaling": {
                "workers_min": 1,
                "workers_max": WORKERS_MAX,
                "rate_per_worker": self.rate_per_worker,
                "lead_time_s": 5.0,
                "rule": self.rule,
                "rule_options": self.rule_options,
            },
            "meter": {"window_s": 3.0},
            "forecast": {
                "step_s": self.step_s,
                "horizon_s": 15 * self.step_s,
                "season_s": DAY_S / self.speed_up,
                "beside": [],  # the transformer against light models: what a demo has time to train
                "train_cpu_s": TRAIN_CPU_S,
                "retrain_s": DAY_S / self.speed_up,
            },
            "shuffle": {"lease_s": 1.0, "lease_ttl_s": 5.0, "start": "earliest"},
            "pool": {"run_dir": str(run_dir), "drain_s": 10.0, "backoff_max_s": 10.0},
            # Real learning at the pace of a slower device, so that it takes several workers.
            # The network costs next to nothing here, stale gradients do: so one batch at a time.
            "worker": {
                "device": "numpy",
                "batch": _BATCH,
                "step_ms": _STEP_MS,
                "startup_s": 2.0,
                "staleness": 1,
                "crosses": CLICK_CROSSES,
            },
            "parameters": {
                "shards": SHARDS,
                "rows_max": 100_000,
                "directory": str(run_dir.with_name("parameters")),
                "snapshot_s": 20.0,
            },
        }
