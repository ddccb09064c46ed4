"""The parameter server as processes of the demo's: there before the workers, replaced when one dies."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from services.control.errors import StateUnavailable
from services.embedded.guarded import GuardedProcess
from services.settings import Settings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.trainer.ps.directory import RedisDirectory
from services.trainer.ps.errors import ShardError
from services.trainer.ps.link import ShardLink

_READY_WITHIN_S: Final = 120.0
_STOP_WITHIN_S: Final = 15.0


class ShardsNotReady(Exception):
    """The parameter server did not come up. Says where its log is."""


class ShardProcesses:
    """Every shard of a job. They never outlive this process; its directory goes with them."""

    def __init__(self, settings: Settings, job: str, *, config: Path, directory: Path) -> None:
        self._settings = settings
        self._job = job
        self._processes = [
            GuardedProcess(
                [
                    *(sys.executable, "-m", "services.cli.main", "shard", "--job", job),
                    *("--shard", str(number), "--config", str(config)),
                ],
                log=directory / f"shard-{number}.log",
                remove=[directory],
            )
            for number in range(settings.jobs[job].parameters.shards)
        ]

    def start(self) -> None:
        """Start all, and wait until each answers. Raises ShardsNotReady."""
        for process in self._processes:
            process.start()
        deadline_s = time.monotonic() + _READY_WITHIN_S
        redis = self._settings.redis
        with closing(connect_sync(redis)) as client:
            directory = RedisDirectory(client, Keys(redis.prefix), self._job)
            for number, process in enumerate(self._processes):
                while not _answers(directory, number):
                    if not process.alive or time.monotonic() > deadline_s:
                        raise ShardsNotReady(f"shard {number} did not start: {process.log_tail()}")
                    time.sleep(0.05)

    @property
    def pids(self) -> list[int]:
        """Of the shards themselves."""
        return [process.pid for process in self._processes]

    def mend(self) -> str | None:
        """Start again what died; it restores its snapshot by itself."""
        for number, process in enumerate(self._processes):
            if not process.alive:
                code = process.exit_code
                process.start()
                return (
                    f"shard {number} of the parameter server had died (exit code {code}); it restores itself"
                )
        return None

    def stop(self) -> None:
        """Let them keep a last snapshot, then end."""
        for process in self._processes:
            if process.alive:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)
        for process in self._processes:
            if process.alive:
                with suppress(TimeoutError):
                    process.wait(within_s=_STOP_WITHIN_S)
                process.let_go()


def _answers(directory: RedisDirectory, number: int) -> bool:
    try:
        ShardLink(directory.find(number), timeout_s=5.0).close()
    except (ShardError, StateUnavailable):
        return False
    return True
