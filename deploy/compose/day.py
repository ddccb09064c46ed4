"""The synthetic day of docker-compose.yml: its past, for the forecast, and its traffic, in phase.

    python day.py past        prints ten days before the stack was first started, as timestamp,rate rows
    python day.py traffic     sends what is due from now on; started again, it goes on where the day is

Both take MEAN_RATE and SPEED_UP from the environment, and share the moment of the first start in the file
DAY_BEGAN. METRICS is where the controller's metrics are.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from services.traffic.shape import MONDAY_S, SyntheticTraffic, counted, played

START_S = MONDAY_S + 4 * 3600
"""The end of the night: quiet until noon, so that a stack that takes its time to start still begins small."""
CROWD_AT_S = START_S + 10 * 3600
PAST_DAYS = 10.0
STEP_S = 5.0
READY = re.compile(r'^penstock_workers\{job="clicks",phase="ready"\} [1-9]', re.MULTILINE)


def began_at_s() -> float:
    """When the stack was first started; that is now when nobody has noted it yet."""
    noted = Path(os.environ["DAY_BEGAN"])
    if not noted.exists():
        noted.write_text(str(time.time()), encoding="utf-8")
    return float(noted.read_text(encoding="utf-8"))


def write_past(rate: float, speed_up: float) -> None:
    """Print the rates of the days before, in wall time as the meter would have seen them."""
    shape = SyntheticTraffic(rate)
    past = shape.history(until_s=START_S, step_s=STEP_S * speed_up, days=PAST_DAYS)
    seen = counted(played(past, speed_up=speed_up, end_s=began_at_s()), seed=shape.seed)
    sys.stdout.write("timestamp,rate\n")
    for number, value in enumerate(seen.rates):
        sys.stdout.write(f"{seen.start_s + number * seen.step_s:.3f},{value:.3f}\n")


def await_workers() -> None:
    """Return once a worker is ready: a stack that is still starting has promised nobody anything."""
    while True:
        try:
            with urlopen(os.environ["METRICS"], timeout=5) as answer:  # noqa: S310 - the stack's own address
                if READY.search(answer.read().decode()):
                    return
        except URLError:
            pass  # the controller has only just begun
        time.sleep(1)


def send_traffic(rate: float, speed_up: float) -> None:
    """Become `penstock traffic`."""
    await_workers()
    now_s = START_S + (time.time() - began_at_s()) * speed_up
    crowd_h = (CROWD_AT_S - now_s) / 3600
    command = [
        *("penstock", "traffic", "--topic=clicks", "--report=/tmp/traffic.json"),
        *(f"--rate={rate}", f"--speed-up={speed_up}", f"--start={now_s}", f"--crowd={crowd_h}:0.6:3600:5400"),
    ]
    os.execvp(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    what = {"past": write_past, "traffic": send_traffic}[sys.argv[1]]
    what(float(os.environ["MEAN_RATE"]), float(os.environ["SPEED_UP"]))
