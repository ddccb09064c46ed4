"""The forecasts of all jobs: those of one grid and calendar are one fleet, served by one set of weights."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from forecasting.calendar import Calendar
from forecasting.selector import Score
from services.control.ports import ForecastSource
from services.forecaster.artefacts import NoArtefact
from services.forecaster.lesson import CHEAP
from services.forecaster.light import LightForecasts
from services.forecaster.served import ForecastStatus, ServedForecasts, ServingOptions
from services.settings.traffic import ForecastSettings

log = structlog.get_logger(__name__)

NO_NETWORK = "none"


class ForecastFleets:
    """Opens a job's forecasts; a fleet lives as long as one of its jobs is open."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._fleets: dict[str, ServedForecasts] = {}
        self._key_of: dict[str, str] = {}
        """By job that is open: its fleet."""

    @asynccontextmanager
    async def open(self, job: str, settings: ForecastSettings) -> AsyncIterator[ForecastSource]:
        """The `ForecastSource` of a job. Weights on disk are served from the first tick on."""
        if settings.light:
            yield LightForecasts(settings)
            return
        fleet = self._join(job, settings)
        try:
            yield fleet.source(job)
        finally:
            fleet.forget(job)
            key = self._key_of.pop(job)
            if key not in self._key_of.values():
                del self._fleets[key]
                await asyncio.to_thread(fleet.stop)

    def _join(self, job: str, settings: ForecastSettings) -> ServedForecasts:
        key = settings.model_dump_json()
        self._key_of[job] = key
        if key not in self._fleets:
            self._fleets[key] = ServedForecasts(
                settings, self._directory / directory_name(settings), options_of(settings)
            )
            self._fleets[key].start()
        return self._fleets[key]

    def scores(self, job: str) -> tuple[Score, ...]:
        """How every model has done on a job lately; none for a job that is not open or not scored."""
        fleet = self._fleet_of(job)
        return () if fleet is None else fleet.scores(job)

    def status(self, job: str) -> ForecastStatus | None:
        """How training and serving do in the job's fleet, its topics left out; None for light models."""
        fleet = self._fleet_of(job)
        return None if fleet is None else fleet.status(topics=False)

    def roll_back(self, job: str, version: str) -> None:
        """Serve this version no more in the job's fleet; nothing where it is not known, as after a move."""
        fleet = self._fleet_of(job)
        if fleet is None:
            return
        try:
            fleet.roll_back(version)
        except NoArtefact:
            log.debug("nothing_to_roll_back", job=job, version=version)

    def _fleet_of(self, job: str) -> ServedForecasts | None:
        key = self._key_of.get(job)
        return None if key is None else self._fleets.get(key)


def options_of(settings: ForecastSettings) -> ServingOptions:
    """How to train and serve, as the settings say."""
    network = settings.model.lower()
    return ServingOptions(
        network="" if network == NO_NETWORK else network,
        beside=CHEAP if settings.beside is None else tuple(settings.beside),
        budget_cpu_s=settings.train_cpu_s,
        retrain_s=settings.retrain_s,
        calendar=Calendar(frozenset(settings.holidays), settings.timezone),
    )


def directory_name(settings: ForecastSettings) -> str:
    """One directory a fleet: two writers must not meet. Readable, and different for other settings.

    >>> directory_name(ForecastSettings()).startswith("patchtst-60s-")
    True
    """
    digest = hashlib.sha256(settings.model_dump_json().encode()).hexdigest()
    return f"{settings.model.lower()}-{settings.step_s:g}s-{digest[:8]}"
