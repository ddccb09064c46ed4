"""The training process: `python -m services.forecaster.train REQUEST_DIR ARTEFACT_DIR`.

Tells its progress as JSON lines on standard output. Ends with its parent: a thread
watches standard input for the end of file.
"""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from forecasting.calendar import Calendar
from forecasting.errors import ForecastError
from forecasting.grid import Grid
from forecasting.history import TrafficHistory
from services.forecaster.lesson import TrainingRequest, train

NICENESS = 5
"""The controller, its workers and everything else on the machine come first."""
OVERRUN, START_CPU_S = 2.0, 30.0
"""Training keeps to its budget by itself; what uses more than this many budgets is ended by the system."""


def write_request(directory: Path, request: TrainingRequest, histories: Mapping[str, TrafficHistory]) -> None:
    """Lay down what the training process reads."""
    directory.mkdir(parents=True, exist_ok=True)
    topics = list(histories)
    content = {
        "grid": asdict(request.grid),
        "network": request.network,
        "beside": list(request.beside),
        "holidays": sorted(day.isoformat() for day in request.calendar.holidays),
        "timezone": request.calendar.timezone,
        "budget_cpu_s": request.budget_cpu_s,
        "steps": request.steps,
        "seed": request.seed,
        "topics": [[topic, histories[topic].start_s, histories[topic].step_s] for topic in topics],
    }
    (directory / "request.json").write_text(json.dumps(content), encoding="utf-8")
    rates = {str(i): histories[topic].rates for i, topic in enumerate(topics)}
    np.savez(directory / "histories.npz", allow_pickle=False, **rates)


def read_request(directory: Path) -> tuple[TrainingRequest, dict[str, TrafficHistory]]:
    """What `write_request` laid down."""
    content = json.loads((directory / "request.json").read_text(encoding="utf-8"))
    with np.load(directory / "histories.npz", allow_pickle=False) as rates:
        histories = {
            topic: TrafficHistory(start_s, step_s, rates[str(i)])
            for i, (topic, start_s, step_s) in enumerate(content["topics"])
        }
    request = TrainingRequest(
        grid=Grid(**content["grid"]),
        network=content["network"],
        beside=tuple(content["beside"]),
        calendar=Calendar.of(content["holidays"], content["timezone"]),
        budget_cpu_s=content["budget_cpu_s"],
        steps=content["steps"],
        seed=content["seed"],
    )
    return request, histories


def _say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _end_with_parent(request_dir: Path) -> None:
    while os.read(0, 1):  # unbuffered: a lock held here would abort the interpreter's own end
        pass
    shutil.rmtree(request_dir, ignore_errors=True)  # a controller that was killed cannot
    os._exit(3)


def cpu_limit_s(budget_cpu_s: float) -> int:
    """CPU-seconds after which the system ends a training process.

    >>> cpu_limit_s(90.0)
    210
    """
    return math.ceil(OVERRUN * budget_cpu_s + START_CPU_S)


def main(request_dir: str, artefact_dir: str) -> int:
    """0 when a version was written; 2 when there was nothing to learn from."""
    threading.Thread(target=_end_with_parent, args=(Path(request_dir),), daemon=True).start()
    os.nice(NICENESS)
    request, histories = read_request(Path(request_dir))
    limit_s = cpu_limit_s(request.budget_cpu_s)
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
    try:
        manifest = train(
            request,
            histories,
            Path(artefact_dir),
            lambda stage, share: _say(stage=stage, share=round(min(share, 1.0), 4)),
        )
    except ForecastError as error:
        _say(error=str(error))
        return 2
    _say(version=manifest.version, accepted=manifest.models, rejected=manifest.rejected, cpu_s=manifest.cpu_s)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
