"""Settings of a job's traffic: how it is measured, and how it is forecast."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, Self
from zoneinfo import available_timezones

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, field_validator, model_validator

from services.settings.group import SettingsGroup

LIGHT_MODELS = ("seasonal", "last-value")
"""Forecasting models that may be asked for alone."""

_STEPS_MOST = 50_000
"""Bins of a season, or of a forecast: more would take a tick's time, and the memory of all jobs."""
_BINS_KEPT_MOST = 10_000_000
"""Of past rates at one resolution: 40 MB."""


class BackfillSettings(SettingsGroup):
    """The past that a new job asks Kafka for, as far as the topic's retention reaches."""

    days: NonNegativeFloat = 7.0
    """How far back to go, by the minute for the first day and by ten minutes before; 0 asks for nothing."""
    lookups_max: PositiveInt = 60_000
    """Offsets looked up by time at most; a week takes some 37,000."""
    lookups_per_s: PositiveFloat = 2_800.0
    """Lookups a second at most, of all jobs together: they take turns."""


class MeterSettings(SettingsGroup):
    """How traffic is measured."""

    window_s: PositiveFloat = 10.0
    """The rate in force is the mean over this long: shorter follows faster, longer is calmer."""
    gap_s: PositiveFloat = 30.0
    """Time that nobody looked at for longer than this is a gap in the history, not an average."""
    history_step_s: tuple[PositiveFloat, ...] = (1.0, 10.0, 60.0)
    """The resolutions at which past rates are kept."""
    history_keep_s: tuple[PositiveFloat, ...] = (3_600.0, 86_400.0, 1_209_600.0)
    """How long each of them is kept."""
    backfill: BackfillSettings = BackfillSettings()

    @model_validator(mode="after")
    def _as_many_steps_as_times(self) -> Self:
        pairs = list(zip(self.history_step_s, self.history_keep_s, strict=False))
        if len(self.history_step_s) != len(self.history_keep_s) or any(keep < step for step, keep in pairs):
            raise ValueError(
                "history_step_s and history_keep_s go in pairs; a step is kept for at least its own length"
            )
        if len(set(self.history_step_s)) != len(self.history_step_s):
            raise ValueError("history_step_s names a resolution twice")
        if any(keep / step > _BINS_KEPT_MOST for step, keep in pairs):
            raise ValueError(f"history_keep_s has more than {_BINS_KEPT_MOST} bins of its history_step_s")
        return self


class ForecastSettings(SettingsGroup):
    """How far and how finely traffic is forecast."""

    step_s: PositiveFloat = 60.0
    """Width of a bin of history and forecast."""
    horizon_s: PositiveFloat = 3600.0
    """How far ahead to look."""
    season_s: PositiveFloat = 86_400.0
    """The period after which traffic repeats."""
    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,40}$")] = "patchtst"
    """The network that is trained and mixed with cheaper models by their live scores: `patchtst`, or
    `nhits`, `fedformer` or another of neuralforecast, which need the extra `forecast`. `none` trains the
    cheaper models only. `seasonal` and `last-value` are that light model alone: nothing is trained."""
    beside: (
        list[Literal["regression", "perceptron", "window", "steady-window", "shared-window", "boosting"]]
        | None
    ) = None
    """The cheaper models to train; all but `perceptron` when not given."""
    train_cpu_s: PositiveFloat = 90.0
    """CPU-seconds that one training may take, in a process of its own."""
    retrain_s: PositiveFloat | None = None
    """Between two trainings; a quarter of a season when not given."""
    holidays: list[date] = Field(default_factory=list)
    """Days on which traffic is as on a weekend, `YYYY-MM-DD`."""
    timezone: str = "UTC"
    """Where the traffic is made, as in `Europe/Paris`: days and daylight saving follow it."""

    @model_validator(mode="after")
    def _bins_that_can_be_told(self) -> Self:
        for name, span_s in (("horizon_s", self.horizon_s), ("season_s", self.season_s)):
            if span_s / self.step_s > _STEPS_MOST:
                raise ValueError(f"{name} has more than {_STEPS_MOST} bins of step_s; make step_s larger")
        if self.season_s < self.step_s:
            raise ValueError(f"season_s ({self.season_s:g}) is shorter than one step_s ({self.step_s:g})")
        return self

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, timezone: str) -> str:
        if timezone != "UTC" and timezone not in available_timezones():
            raise ValueError(f"{timezone!r} is no time zone; write it as in Europe/Paris")
        return timezone

    @property
    def light(self) -> bool:
        """Whether a light model alone was asked for."""
        return self.model in LIGHT_MODELS
