"""A worker process for tests: writes down every sample that it trains. Run with a JSON argument."""

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
    given = json.loads(sys.argv[1])
    given["poison"] = given["poison"].encode()
    settings = Settings.model_validate(given["settings"])
    with (
        Departure() as departure,
        Path(given["record"]).open("a", encoding="ascii") as record,
        stream(settings, given["job"], worker=given["worker"], stopping=departure.asked) as batches,
    ):
        departure.begins_with(batches.stop)
        Path(given["ready"]).touch()
        for batch in batches:
            if given["poison"] in {sample.value() for sample in batch.samples if sample.value()}:
                os._exit(3)
            time.sleep(given["step_s"])
            record.writelines(f"{sample.partition()} {sample.offset()}\n" for sample in batch.samples)
            record.flush()
            batch.done()


if __name__ == "__main__":
    main()
