"""What every group of settings has in common."""

from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

YEAR_S = 366 * 86_400.0


class SettingsGroup(BaseModel):
    """Frozen, strict about names, each field documented by the text below it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _no_time_beyond_a_year(self) -> Self:
        """Times are divided into bins and ticks: one of 1e308 s overflowed, and ended every job's loop."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            times = value if isinstance(value, tuple) else (value,)
            if not name.endswith("_s") or name.endswith("_per_s"):
                continue
            if any(isinstance(time_s, float) and time_s > YEAR_S for time_s in times):
                raise ValueError(f"{name} is longer than a year, which is {YEAR_S:.0f} s")
        return self
