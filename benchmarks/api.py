"""Mixed reads of the API at a fixed rate, while a controller ticks: latency, and how late the ticks were.

`python -m benchmarks.api --seconds 60 --rate 200`, or `make bench-api`, writes `benchmarks/results/api.json`.
Kafka and Redis are embedded; the job's workers are real processes. Requests are sent on a fixed grid,
whether earlier ones were answered or not, and their latency counts from the moment they were due.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
import time
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

RESULTS = Path("benchmarks/results/api.json")
MIX = [
    *["/v1/jobs/demo", "/v1/jobs/demo/plan", "/v1/jobs/demo/snapshot", "/v1/fleet"] * 3,
    *["/v1/jobs/demo/traffic", "/v1/jobs/demo/forecast", "/v1/jobs/demo/workers", "/v1/jobs/demo/throughput"]
    * 2,
    *["/v1/jobs/demo/decisions?limit=50", "/v1/jobs/demo/series?limit=100", "/v1/me", "/v1/audit?limit=20"],
]


def main() -> None:
    """Print the figures and keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=200.0)
    options = parser.parse_args()
    with TemporaryDirectory() as directory:
        out = Path(directory) / "demo.out"
        minutes = options.seconds / 60 + 10  # ended by us when the measurement has
        command = [
            sys.executable,
            "-m",
            "services.cli.main",
            "demo",
            "--headless",
            "--minutes",
            f"{minutes:.2f}",
        ]
        # One token asks for many callers here.
        limits = {"PENSTOCK_API__REQUESTS_PER_S": "100000", "PENSTOCK_API__REQUESTS_BURST": "100000"}
        with out.open("w") as file:
            demo = subprocess.Popen(
                command, stdout=file, stderr=subprocess.DEVNULL, env={**os.environ, **limits}
            )
        try:
            server, token = _invitation(out, demo)
            figures = asyncio.run(_measure(server, token, options.rate, options.seconds, demo.pid))
        finally:
            demo.terminate()
            demo.wait()
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    for name, value in figures.items():
        print(f"{name:22} {value:>10}")


def _invitation(out: Path, demo: subprocess.Popen[bytes]) -> tuple[str, str]:
    while demo.poll() is None:
        found = re.search(r"PENSTOCK_SERVER=http://(\S+) PENSTOCK_TOKEN=(\S+)", out.read_text())
        if found:
            return found[1], found[2]
        time.sleep(0.2)
    raise SystemExit("the demo ended before it could be asked")


async def _measure(server: str, token: str, rate: float, seconds: float, pid: int) -> dict[str, Any]:
    host, _, port = server.partition(":")
    callers = [_Caller(host, int(port), token) for _ in range(32)]
    free: asyncio.Queue[_Caller] = asyncio.Queue()
    for caller in callers:
        free.put_nowait(caller)
    await _until_observed(callers[0])
    controller = psutil.Process(pid)
    before = controller.cpu_times()
    paths, started_s = itertools.cycle(MIX), time.perf_counter()
    tasks = []
    for number in range(round(rate * seconds)):
        due_s = started_s + number / rate
        await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
        tasks.append(asyncio.create_task(_one(free, next(paths), due_s)))
    results = await asyncio.gather(*tasks)
    took_s, after = time.perf_counter() - started_s, controller.cpu_times()
    gaps = await _tick_gaps(callers[0], seconds)
    took_ms = np.array([ms for ms, _ in results])
    return {
        "requests": len(results),
        "requests_failed": sum(status != HTTPStatus.OK for _, status in results),
        "requests_per_s": round(len(results) / took_s, 1),
        **{f"latency_p{q}_ms": round(float(np.percentile(took_ms, q)), 1) for q in (50, 90, 99)},
        "tick_gap_mean_s": round(float(gaps.mean()), 3),
        "tick_gap_p99_s": round(float(np.percentile(gaps, 99)), 3),
        "controller_cores": round((sum(after[:2]) - sum(before[:2])) / took_s, 2),
        "machine_load": round(os.getloadavg()[0], 1),
    }


async def _until_observed(caller: _Caller) -> None:
    while await caller.ask("/v1/jobs/demo/forecast") != 200:  # noqa: ASYNC110 - another process tells
        await asyncio.sleep(0.5)


async def _one(free: asyncio.Queue[_Caller], path: str, due_s: float) -> tuple[float, int]:
    caller = await free.get()
    try:
        status = await caller.ask(path)
    finally:
        free.put_nowait(caller)
    return (time.perf_counter() - due_s) * 1000, status


async def _tick_gaps(caller: _Caller, seconds: float) -> NDArray[np.float64]:
    """Between one tick and the next, in a demo that ticks once a second."""
    await caller.ask(f"/v1/jobs/demo/series?limit={min(1000, int(seconds))}")
    return np.diff(np.array(json.loads(caller.body)["at_s"]))


class _Caller:
    """One connection that is kept open."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._where = (host, port)
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.body = b""

    async def ask(self, path: str) -> int:
        """The status; the body is kept until the next question. An idle connection may have been closed."""
        if self._streams is None or self._streams[0].at_eof():
            self._streams = await asyncio.open_connection(*self._where)
        reader, writer = self._streams
        head = f"GET {path} HTTP/1.1\r\nHost: {self._where[0]}\r\nAuthorization: Bearer {self._token}\r\n\r\n"
        writer.write(head.encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answer.lower())
        self.body = await reader.readexactly(int(length[1]) if length else 0)
        return int(answer.split(b" ", 2)[1])


if __name__ == "__main__":
    main()
