"""Results of runs, a file each: what was run before is not run again."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from services.simulator import layout as at
from services.simulator.contest import Contest, Result, Task
from services.simulator.figures import Figures
from services.simulator.oracle import OraclePoint
from services.simulator.policies import PolicyChoice
from services.simulator.run import Run

NOT_KEPT = Run(np.zeros((1, at.MINUTE_COLUMNS)), np.zeros(at.DELAY_BINS), ())
"""Figures are kept, the minutes behind them are not."""


class ContestArchive:
    """What policies and oracle came to in one contest.

    A file's name carries a digest of all that a result follows from: the trace's own numbers, the plant,
    the policy with its options, the days, the seed. It does not know the code: after a change of a
    policy, name it among `afresh` and it is run again.
    """

    def __init__(
        self, directory: Path, plant_name: str, contest: Contest, *, afresh: Collection[str] = ()
    ) -> None:
        self._directory = directory / plant_name / contest.trace.name
        self._afresh = frozenset(afresh)
        self._of_contest = hashlib.sha256(contest.trace.starts_s.tobytes() + contest.trace.rates.tobytes())
        plant = contest.plant.model_dump(mode="json")
        told = [plant, contest.trace.native_step_s, contest.seed, contest.days, contest.forecaster]
        self._of_contest.update(json.dumps(told, sort_keys=True).encode())

    def recall(self, task: Task) -> Result | None:
        """What the task came to before; None when it has to be done."""
        path = self._path(task)
        if not path.exists() or (isinstance(task, PolicyChoice) and task.kind in self._afresh):
            return None
        told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(task, PolicyChoice):
            pairs = {name: tuple(value) for name, value in told.items() if isinstance(value, list)}
            return Figures(**{**told, **pairs}), NOT_KEPT
        return OraclePoint(**told)

    def keep(self, task: Task, result: Result) -> None:
        """Whole or not at all: a run that is ended while it writes leaves no half a file."""
        path = self._path(task)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = asdict(result if isinstance(result, OraclePoint) else result[0])
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(path)

    def _path(self, task: Task) -> Path:
        label = task.label if isinstance(task, PolicyChoice) else f"oracle-{task!r}"
        digest = self._of_contest.copy()
        digest.update(repr(sorted(asdict(task).items()) if isinstance(task, PolicyChoice) else task).encode())
        return self._directory / f"{re.sub('[^a-z0-9.]+', '-', label)}-{digest.hexdigest()[:12]}.json"
