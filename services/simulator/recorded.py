"""A live run, recorded tick by tick, and its twin in the simulator: do they agree?

The twin gets the traffic that was measured and the plant as it was measured, and the same rule
decides in it. What it may differ by is stated here, and small enough to notice a wrong world.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.table import Table

from estimator.rules import UnknownRule, rule_named
from services.simulator import layout as at
from services.simulator.arrivals import Arrivals
from services.simulator.errors import SimulationError
from services.simulator.plant import Plant
from services.simulator.run import Course, simulate

GPU_HOURS_WITHIN = 0.15
"""Relative."""
LAG_WITHIN_S = 3.0
"""A live sample waits for its lease, its batch and the next report even when nothing is behind."""
LATE_WITHIN = 0.05
"""Difference of late shares."""


class RecordedTick(BaseModel):
    """What one tick saw."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    second: float = Field(ge=0)
    rate_per_s: float = Field(ge=0)
    requested: int = Field(ge=0)
    held: int = Field(ge=0)
    """Workers that hold a GPU, whatever they do."""
    lag: int = Field(ge=0)
    lag_s: float = Field(ge=0)


class Recording(BaseModel):
    """A live run: the rule, the plant as measured, and every tick."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: str
    rule_options: dict[str, float] = {}
    plant: Plant
    late_share: float | None = None
    ticks: tuple[RecordedTick, ...] = Field(min_length=10)


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both."""

    name: str
    live: float
    simulated: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Whether the difference is within its tolerance."""
        return abs(self.simulated - self.live) <= self.tolerance


@dataclass(frozen=True, slots=True)
class Comparison:
    """All figures of both."""

    figures: tuple[Compared, ...]

    @property
    def agrees(self) -> bool:
        """Whether every figure does."""
        return all(figure.agrees for figure in self.figures)

    def table(self) -> Table:
        """For the terminal."""
        table = Table(title="live run against its simulation")
        table.add_column("figure")
        for name in ("live", "simulated", "tolerance", "agrees"):
            table.add_column(name, justify="right")
        for figure in self.figures:
            numbers = (figure.live, figure.simulated, figure.tolerance)
            table.add_row(
                figure.name, *(f"{number:.4g}" for number in numbers), "yes" if figure.agrees else "NO"
            )
        return table


def read_recording(path: Path) -> Recording:
    """The recording in a JSON file. Raises SimulationError, naming what is wrong with it."""
    try:
        return Recording.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SimulationError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
        where = ".".join(map(str, mistake["loc"])) or "the file"
        raise SimulationError(f"{path}: {where}: {mistake['msg']}") from error


def write_recording(path: Path, recording: Recording) -> None:
    """Compact: one tick a line, so that two recordings can be compared by eye."""
    content: dict[str, Any] = recording.model_dump(mode="json", exclude_defaults=True)
    ticks = ",\n  ".join(json.dumps(tick) for tick in content.pop("ticks"))
    head = json.dumps(content)[:-1]
    path.write_text(f'{head}, "ticks": [\n  {ticks}\n]}}\n', encoding="utf-8")


def compare(recording: Recording, *, seed: int = 1) -> Comparison:
    """Run the twin and put both side by side."""
    try:
        rule = rule_named(recording.rule, recording.rule_options)
    except UnknownRule as error:
        raise SimulationError(str(error)) from error
    if rule.foresees:
        raise SimulationError(
            f"rule {recording.rule!r} looks at a forecast, which a recording does not hold; "
            "record a run of `reactive` or `hpa`"
        )
    run = simulate(rule, recording.plant, _course(recording), seed=seed)
    scored = run.minutes[:-1].sum(axis=0)
    seconds = 60.0 * (len(run.minutes) - 1)
    live_hours, live_lag_s, live_late = _live(recording, seconds)
    hours = float(scored[at.M_HELD]) * recording.plant.gpus_per_worker / 3600
    lag_s = float(scored[at.M_LAG_AREA]) / max(float(scored[at.M_ARRIVED]), 1e-9)
    figures = [
        Compared("GPU-hours", live_hours, hours, GPU_HOURS_WITHIN * live_hours),
        Compared("mean lag, in seconds of traffic", live_lag_s, lag_s, LAG_WITHIN_S),
    ]
    if live_late is not None:
        late = float(scored[at.M_LATE] / max(scored[at.M_TRAINED], 1e-9))
        figures.append(Compared("late share", live_late, late, LATE_WITHIN))
    return Comparison(tuple(figures))


def _course(recording: Recording) -> Course:
    """The measured rates, second by second, held from tick to tick; the last part of a minute is left out."""
    times = np.array([tick.second for tick in recording.ticks])
    rates = np.array([tick.rate_per_s for tick in recording.ticks])
    last = int((times[-1] - times[0]) // 60) * 60
    if last < 60:
        raise SimulationError("the recording is shorter than a minute; nothing can be compared")
    # A tick's rate is that of the time before it.
    following = np.searchsorted(times, times[0] + np.arange(last) + 1.0, side="left")
    return Course(np.empty(0), Arrivals(0.0, rates[np.minimum(following, len(rates) - 1)]), 0)


def _live(recording: Recording, seconds: float) -> tuple[float, float, float | None]:
    """(GPU-hours, mean lag in seconds of traffic, late share) of the live run's first `seconds`."""
    first = recording.ticks[0].second
    ticks = [tick for tick in recording.ticks if tick.second - first <= seconds]
    steps = np.diff([tick.second for tick in ticks])
    held = float(np.dot(steps, [tick.held for tick in ticks[1:]])) * recording.plant.gpus_per_worker
    rate = fmean(tick.rate_per_s for tick in ticks)
    return held / 3600, fmean(tick.lag for tick in ticks) / max(rate, 1e-9), recording.late_share
