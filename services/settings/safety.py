"""Settings of a job's safety limits: how far and how often its pool may be moved."""

from __future__ import annotations

from pydantic import PositiveFloat, PositiveInt

from services.control.breaker import BreakerTerms
from services.control.safety import SafetyLimits
from services.settings.group import SettingsGroup


class SafetySettings(SettingsGroup):
    """How far and how often a pool may be moved. An operator's override and the job's own limits are obeyed
    whatever is said here."""

    step_up_max: PositiveInt | None = None
    """Workers that one resize may add; any number when not given."""
    step_down_max: PositiveInt | None = None
    """Workers that one resize may take; any number when not given."""
    resizes_per_hour: PositiveInt | None = 360
    """Resizes of this pool within any hour."""
    resizes_per_day: PositiveInt | None = 2000
    """Resizes of this pool within any day."""
    breaker_failures: PositiveInt | None = 5
    """After as many resizes in a row that the platform does not take, or that bring no worker, or whose
    workers train hardly more, the pool is held; never when null."""
    breaker_open_s: PositiveFloat = 30.0
    """How long it is held the first time; then one resize is tried, and doubles this when it fails too."""
    breaker_open_max_s: PositiveFloat = 600.0
    """The longest that it is held."""

    def limits(self, *, fleet_resizes_per_hour: int | None) -> SafetyLimits:
        """What the tick needs of all this."""
        breaker = None
        if self.breaker_failures is not None:
            breaker = BreakerTerms(self.breaker_failures, self.breaker_open_s, self.breaker_open_max_s)
        return SafetyLimits(
            step_up_max=self.step_up_max,
            step_down_max=self.step_down_max,
            resizes_per_hour=self.resizes_per_hour,
            resizes_per_day=self.resizes_per_day,
            fleet_resizes_per_hour=fleet_resizes_per_hour,
            breaker=breaker,
        )
