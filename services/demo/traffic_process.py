"""The traffic generator as a process of the demo's: replaced when it dies, stopped before the drain."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from services.demo.scenario import Scenario
from services.embedded.guarded import GuardedProcess

_BEGIN_WITHIN_S = 30.0
_STOP_WITHIN_S = 15.0


class TrafficProcess:
    """Plays the scenario from the moment of `start`. It never outlives this process.

    Its guardian also removes the demo's working directory should this process be killed.
    """

    def __init__(self, scenario: Scenario, *, kafka: str, topic: str, directory: Path) -> None:
        self._scenario = scenario
        self._kafka = kafka
        self._topic = topic
        self._directory = directory
        self._report = directory / "traffic.json"
        self._started_s = 0.0
        self._process: GuardedProcess | None = None

    @property
    def elapsed_s(self) -> float:
        """Wall seconds since the first samples were sent."""
        return time.monotonic() - self._started_s

    @property
    def hidden_auc(self) -> float | None:
        """How well the model that makes the clicks tells the latest of them; None before it has said."""
        try:
            told = json.loads(self._report.read_text(encoding="utf-8"))["hidden_auc"]
        except FileNotFoundError:
            return None
        return None if told is None else float(told)

    def start(self) -> None:
        """Begin to play. Returns when the first samples are sent: a topic without any is not measured.

        One that does not come to that is left to `mend`.
        """
        self._started_s = time.monotonic()
        self._process = self._begin()
        until_s = self._started_s + _BEGIN_WITHIN_S
        while self._process.alive and not self._report.exists() and time.monotonic() < until_s:
            time.sleep(0.02)
        self._started_s = time.monotonic()

    def mend(self) -> str | None:
        """Replace a generator that died, at the simulated time it would have reached."""
        if self._process is None or self._process.alive:
            return None
        code = self._process.exit_code
        self._process = self._begin()
        return f"the traffic generator had died (exit code {code}); another one goes on"

    def stop(self) -> None:
        """Let it send what it holds, then end."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            process.wait(within_s=_STOP_WITHIN_S)
        process.let_go()  # one that would not end is killed by its guardian

    def _begin(self) -> GuardedProcess:
        process = GuardedProcess(
            self._scenario.traffic_command(
                kafka=self._kafka,
                topic=self._topic,
                report=self._report,
                elapsed_s=self.elapsed_s,
            ),
            log=self._directory / "traffic.log",
            remove=[self._directory],
        )
        process.start()
        return process
