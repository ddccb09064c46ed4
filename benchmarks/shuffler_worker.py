"""A worker process for the benchmark: writes down when it trained what. Run with a JSON argument."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from services.settings import Settings
from services.stream.sdk import stream
from services.trainer.departure import Departure


def main() -> None:
    """Join when standard input ends, train until SIGTERM; a line of JSON for the start, then one a batch."""
    given = json.loads(sys.argv[1])
    settings = Settings.model_validate(given["settings"])
    os.write(1, b"loaded\n")
    sys.stdin.read()
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)  # nobody reads what the log says
    with (
        Departure() as departure,
        Path(given["record"]).open("w", encoding="ascii") as record,
        stream(settings, given["job"], worker=given["worker"], stopping=departure.asked) as batches,
    ):
        departure.begins_with(batches.stop)
        record.write(json.dumps({"ready_s": time.time()}) + "\n")
        record.flush()
        for batch in batches:
            given_s = time.time()
            time.sleep(given["step_s"])
            batch.done()
            parts: dict[int, list[int]] = {}
            for sample in batch.samples:
                parts.setdefault(sample.partition() or 0, []).append(sample.timestamp()[1])
            record.write(json.dumps({"given_s": given_s, "done_s": time.time(), "parts": parts}) + "\n")
            record.flush()


if __name__ == "__main__":
    main()
