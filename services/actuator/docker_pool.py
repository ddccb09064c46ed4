"""Workers as containers of a Docker engine, found by label.

All truth is in the engine: the workers' containers, and what was asked for (see `docker_intents`),
so a controller needs no disk, and any controller that reaches the engine can go on from there. Who
would rather have what was asked for in a directory names one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from services.actuator.charged_pool import ChargedPool
from services.actuator.charged_supervision import ChargedSupervision
from services.actuator.crew import Crew
from services.actuator.docker_engine import ContainerSpec, DockerEngine
from services.actuator.docker_intent_files import IntentFiles
from services.actuator.docker_intents import DockerIntents
from services.actuator.docker_platform import DockerPlatform
from services.actuator.tending import Tending

TENDING = Tending(poll_s=1.0)
"""Each pass asks the engine."""
_STARTS_PER_PASS = 2
"""A start takes the engine the better part of a second."""


class DockerPool(ChargedPool):
    """A `WorkerPool` of containers.

    A worker makes the file named by `PENSTOCK_READY_FILE` in its container once it is ready,
    leaves on SIGTERM within `drain_s`, and is killed after that.
    """

    def __init__(
        self,
        job: str,
        spec: ContainerSpec,
        *,
        connect: Callable[[], DockerEngine] = DockerEngine,
        intents_dir: Path | None = None,
        tending: Tending = TENDING,
    ) -> None:
        super().__init__(job, tending)
        self._spec = replace(spec, env={**spec.env, **tending.told}, leaves_within_s=tending.drain_s)
        self._connect = connect
        self._intents_dir = intents_dir

    def _reach(self) -> ChargedSupervision:
        engine = self._connect()
        kept_in = engine if self._intents_dir is None else IntentFiles(self._intents_dir)
        intents = DockerIntents(kept_in, self._job)
        platform = DockerPlatform(self._job, self._spec, engine, intents)
        crew = Crew(
            self._job,
            platform,
            backoff=self._tending.backoff,
            drain_s=self._tending.drain_s,
            starts_per_pass=_STARTS_PER_PASS,
            names=self._tending.names,
        )
        return ChargedSupervision(self._job, platform, intents, crew)
