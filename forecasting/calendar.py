"""Hours, weekdays and holidays of the place where the traffic is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
from numpy.typing import NDArray

DAY_S = 86_400.0
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Calendar:
    """Local time and days off. Without a time zone, UTC; daylight saving follows the zone.

    >>> Calendar().days_off(np.array([0.0, 2 * DAY_S]))  # a Thursday and a Saturday
    array([0., 1.])
    >>> Calendar.of(["1970-01-01"]).days_off(np.array([0.0]))
    array([1.])
    """

    holidays: frozenset[date] = field(default_factory=frozenset)
    timezone: str = "UTC"

    @classmethod
    def of(cls, holidays: Iterable[str], timezone: str = "UTC") -> Calendar:
        """From ISO dates and a time zone as a user writes them. Raises ValueError."""
        if timezone != "UTC" and timezone not in available_timezones():
            raise ValueError(f"{timezone!r} is no time zone; write it as in Europe/Paris")
        return cls(frozenset(date.fromisoformat(day) for day in holidays), timezone)

    def local_s(self, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds since the epoch as the clocks on the wall there count them."""
        if self.timezone == "UTC":
            return at_s
        zone = ZoneInfo(self.timezone)
        hours, which = np.unique(np.floor(at_s / 3600), return_inverse=True)
        offsets = [datetime.fromtimestamp(hour * 3600, UTC).astimezone(zone).utcoffset() for hour in hours]
        shift = np.array([0.0 if offset is None else offset.total_seconds() for offset in offsets])
        local: NDArray[np.float64] = at_s + shift[which].reshape(at_s.shape)
        return local

    def days_off(self, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 on Saturdays, Sundays and holidays, else 0."""
        day = np.floor(self.local_s(at_s) / DAY_S).astype(np.int64)
        weekday = (day + 3) % 7  # the epoch was a Thursday; Monday is 0
        off = weekday >= 5
        if self.holidays:
            off |= np.isin(day, [(holiday - _EPOCH).days for holiday in self.holidays])
        return off.astype(np.float64)
