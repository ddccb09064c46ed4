"""A trainer of a user's own, on the SDK: notes when its first batch was trained. For `bench-standby`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from threading import Event

from services.settings.load import load_settings
from services.stream.sdk import stream
from services.trainer.departure import Departure
from services.trainer.device import EmulatedDevice


def main() -> None:
    """`standby_worker CONFIG JOB WORKER DIRECTORY`: train until SIGTERM."""
    config, job, worker, directory = sys.argv[1:]
    settings = load_settings(Path(config))
    wanted = settings.jobs[job].worker
    first = Path(directory) / f"{worker}.first"
    with Departure() as departure, stream(settings, job, worker=worker, stopping=departure.asked) as batches:
        departure.begins_with(batches.stop)
        _load(departure.asked, wanted.startup_s)
        device = EmulatedDevice(step_ms=wanted.pace_ms, batch=wanted.batch)
        Path(os.environ["PENSTOCK_READY_FILE"]).touch()
        for batch in batches:
            device.step(len(batch))
            batch.done()
            if not first.exists():
                first.with_suffix(".new").write_text(repr(time.time()), encoding="utf-8")
                first.with_suffix(".new").replace(first)


def _load(leaving: Event, startup_s: float) -> None:
    leaving.wait(startup_s)


if __name__ == "__main__":
    main()
