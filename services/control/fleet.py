"""What the jobs of one controller share: how often their pools were resized lately."""

from __future__ import annotations

from services.control.rolling_count import RollingCount


class FleetCount:
    """The resizes of every job within the last hour, as each job's own state has them.

    So a controller that takes over counts what its predecessor did, as soon as it has read a job's state.
    """

    def __init__(self) -> None:
        self._by_job: dict[str, RollingCount] = {}

    def tell(self, job: str, hour: RollingCount) -> None:
        """This is how often `job` was resized."""
        self._by_job[job] = hour

    def elsewhere(self, job: str, now_s: float) -> int:
        """Resizes of the other jobs. One that was deleted counts until its hour is over.

        >>> fleet = FleetCount()
        >>> fleet.tell("clicks", RollingCount(3600.0).noted(0.0))
        >>> fleet.elsewhere("views", 60.0), fleet.elsewhere("clicks", 60.0)
        (1, 0)
        """
        return sum(hour.at(now_s) for name, hour in self._by_job.items() if name != job)
