"""What has been learned so far, and how one window more changes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from estimator.throughput.bottleneck import Wall, binding_of
from estimator.throughput.drift import Drift
from estimator.throughput.fitted import Fitted, refit, unfitted
from estimator.throughput.foresight import ERROR_SD_AFTER_DRIFT, TRIAL_WINDOWS, Foresight, Trial
from estimator.throughput.scalability import LawPrior
from estimator.throughput.speed_rows import SETTLED, SpeedRow, learned, row_for
from estimator.throughput.step_times import StepMeans, step_means_of
from estimator.throughput.utilisation import GONE_S, Utilisation
from estimator.throughput.window import Lie, Point, ThroughputWindow, point_of, vetted

REFIT_AT = (1.0, 3.0, 10.0)
"""Windows of a row at which its news is worth a fit."""
REFIT_EVERY = 60
"""Windows between two fits of a table in which nothing new appeared."""
WALL_HOLD_S = 6 * 3600.0
"""After this long a wall may have been mended, and may be tried again."""
WALL_BROKEN = 1.05


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All that a throughput model remembers: plain values, so that it can be stored as JSON."""

    prior: LawPrior
    fitted: Fitted
    gpu_type: str = ""
    rows: tuple[SpeedRow, ...] = ()
    sizes: tuple[int, ...] = ()
    """The pool sizes of the rows, smallest first."""
    steps: StepMeans | None = None
    resources: tuple[Utilisation, ...] = ()
    drift: Drift = field(default_factory=Drift)
    foresight: Foresight = field(default_factory=Foresight)
    trial: Trial | None = None
    wall: Wall | None = None
    at_s: float | None = None
    """Time of the last window that was believed."""
    workers: int | None = None
    """Its pool size."""
    batch: int | None = None
    partitions: int | None = None
    since_fit: int = 0
    lies: Mapping[str, int] = field(default_factory=dict)
    """How often each kind of lie was told."""

    def seen(self, window: ThroughputWindow) -> Knowledge:
        """What is known after one window more. A lie is counted and changes nothing else."""
        sound, lies = vetted(window, last_s=self.at_s, gpu_type=self.gpu_type)
        known = self if not lies else replace(self, lies=_counted(self.lies, lies))
        if sound is None:
            return known
        if sound.batch is not None and known.batch not in (None, sound.batch):
            known = known.forgotten(None)
        resized = known.workers is not None and known.workers != sound.ready
        known = known._noted(sound)
        # The window in which the size changed shows neither the old size nor the new one.
        point = None if resized else point_of(sound)
        return known if point is None else known._learned(sound, point)

    def forgotten(self, point: Point | None) -> Knowledge:
        """What was learned is no longer so: the guess of before, at the speed of `point` if given.

        Of the shape nothing stays: one that promises too little would never be put to the test again.
        """
        rate = math.exp(self.fitted.log_speed(1, 1.0))
        if point is not None:
            rate *= math.exp(point.log_speed - self.fitted.log_speed(point.workers, point.busy))
        prior = LawPrior(rate, self.prior.contention)
        return replace(
            self,
            prior=prior,
            fitted=unfitted(prior),
            rows=(),
            sizes=(),
            steps=None,
            resources=(),
            drift=self.drift.acknowledged(),
            foresight=Foresight(ERROR_SD_AFTER_DRIFT),
            trial=None,
            wall=None,
            since_fit=0,
        )

    def _noted(self, window: ThroughputWindow) -> Knowledge:
        """The circumstances: when, how many, and the trial that begins with a resize."""
        trial = self.trial
        if self.workers is not None and window.ready != self.workers:
            trial = self._trial_of(self.workers, window.ready)
        wall = self.wall
        if wall is not None and window.at_s - wall.at_s > WALL_HOLD_S:
            wall = None
        return replace(
            self,
            at_s=window.at_s,
            workers=window.ready,
            batch=window.batch if window.batch is not None else self.batch,
            partitions=window.partitions,
            trial=trial,
            wall=wall,
        )

    def _trial_of(self, before: int, after: int) -> Trial | None:
        """Only a size that has been watched can be compared with."""
        rows = [row for row in self.rows if row.workers == before]
        if not rows or before < 1 or after < 1:
            return None
        capacity = self.fitted.capacity(before)
        # Below full load a row promises more than there is; the smaller of the two is the safer start.
        seen = min(before * math.exp(rows[0].log_speed), capacity)
        gain = self.fitted.capacity(after) - capacity
        tried = max(row.workers for row in self.rows)
        return Trial(before, seen, after, gain, is_new_ground=after > tried)

    def _learned(self, window: ThroughputWindow, point: Point) -> Knowledge:
        row = row_for(self.rows, point)
        drift = self.drift
        if row is not None and row.count >= SETTLED:
            drift = drift.seen(self._surprise(row, point))
            if drift.is_alarmed:
                return replace(self, drift=drift).forgotten(point)._learned(window, point)
        rows = learned(self.rows, point, window.at_s)
        known = replace(
            self,
            drift=drift,
            rows=rows,
            sizes=tuple(sorted({row.workers for row in rows})),
            steps=self._steps(window, point),
            resources=_resources(self.resources, window),
            since_fit=self.since_fit + 1,
        )
        return known._refitted()._judged(
            window, point, foretold=self.fitted.log_speed(point.workers, point.busy)
        )

    def _surprise(self, row: SpeedRow, point: Point) -> float:
        """The point's log speed less its row's, but for what the fit says that their loads differ."""
        expected = self.fitted.log_speed(point.workers, point.busy)
        return point.log_speed - row.log_speed - expected + self.fitted.log_speed(row.workers, row.busy)

    def _steps(self, window: ThroughputWindow, point: Point) -> StepMeans | None:
        new = step_means_of(window, point)
        return self.steps if new is None else new if self.steps is None else self.steps.seen(new)

    def _refitted(self) -> Knowledge:
        """Fit again when a young row has grown, or after a while; bounded by that."""
        count = self.rows[0].count
        if count not in REFIT_AT and self.since_fit < REFIT_EVERY:
            return self
        fitted = refit(
            self.rows,
            self.steps,
            self.resources,
            self.prior,
            noise_sd=self.drift.noise_sd,
            # A row that is new may move the laws far; else they are near where they were.
            start=() if count == 1 else self.fitted.laws,
        )
        return replace(self, fitted=fitted, since_fit=0)

    def _judged(self, window: ThroughputWindow, point: Point, *, foretold: float) -> Knowledge:
        """Score what was predicted of the last resize, and notice when it was no use."""
        capacity = point.workers * math.exp(point.log_speed)
        wall = self.wall
        if wall is not None and window.saturated and capacity > WALL_BROKEN * wall.samples_per_s:
            wall = None
        if self.trial is None:
            return self if wall is self.wall else replace(self, wall=wall)
        trial, foresight = self.trial.seen(point.log_speed, foretold=foretold), self.foresight
        if trial.windows == TRIAL_WINDOWS and trial.is_new_ground:
            foresight = foresight.scored_with(trial.error)
        useful = trial.verdict(self.drift.noise_sd)
        if useful is False:
            wall = self._wall_of(window, trial)
        return replace(self, trial=trial if useful is None else None, foresight=foresight, wall=wall)

    def _wall_of(self, window: ThroughputWindow, trial: Trial) -> Wall:
        loads = {resource.name: resource.latest for resource in self.resources}
        steps = None if self.steps is None else self.steps.parts
        binding = binding_of(workers=trial.workers, partitions=window.partitions, loads=loads, steps=steps)
        most = max(trial.capacity, trial.capacity_before)
        return Wall(window.at_s, trial.workers_before, trial.workers, most, binding)


def _resources(known: tuple[Utilisation, ...], window: ThroughputWindow) -> tuple[Utilisation, ...]:
    """Those that the window tells of, learned; the others as they were, until they are long gone."""
    by_name = {resource.name: resource for resource in known}
    for load in window.resources:
        line = by_name.get(load.name, Utilisation(load.name))
        by_name[load.name] = line.seen(load, samples_per_s=window.samples_per_s, at_s=window.at_s)
    return tuple(line for line in by_name.values() if window.at_s - line.at_s <= GONE_S)


def _counted(before: Mapping[str, int], lies: tuple[Lie, ...]) -> dict[str, int]:
    counts = dict(before)
    for lie in lies:
        counts[lie.value] = counts.get(lie.value, 0) + 1
    return counts
