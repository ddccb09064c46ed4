"""A controller in a process of its own, to be stopped and killed at the worst moments.

    python -m tests.actuator.controller RUN_DIR OWNED [FENCE:WORKERS ...] [die-at=MOMENT]

Opens the pool, asks for each size in turn (waiting until it is there, but for the last), prints
`asked`, and waits. SIGTERM ends it as `penstock serve` ends: workers stay. With `die-at` it kills
itself at that moment of the last resize.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from services.actuator.held_start import HeldStart
from services.actuator.launcher import Launcher
from services.actuator.run_files import RunFiles
from services.actuator.supervision import Supervision
from services.actuator.worker_process import WorkerProcess
from tests.actuator.rigs import ask, fake_pool, settled, until

MOMENTS: dict[str, tuple[type, str]] = {
    "before the pass": (Supervision, "make_pass"),
    "before the start": (Launcher, "start"),
    "before the note": (RunFiles, "write_record"),
    "at the gate": (HeldStart, "release"),
    "before the signal": (WorkerProcess, "ask_to_leave"),
    "before it is forgotten": (RunFiles, "forget"),
}
"""Where a controller can die: just before it would have done this."""


def die_at(moment: str, *, call: int) -> None:
    """Let this process kill itself when it comes to `moment` for the `call`-th time."""
    owner, name = MOMENTS[moment]
    whole: Callable[..., Any] = getattr(owner, name)
    calls = iter(range(1, 1_000_000))

    def fatal(*arguments: Any, **more: Any) -> Any:
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*arguments, **more)

    setattr(owner, name, fatal)


async def main(run_dir: Path, *, owned: bool, sizes: list[tuple[int, int]], moment: str, call: int) -> None:
    pool = fake_pool(run_dir, owned=owned)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await pool.open()
    for fence, workers in sizes[:-1]:
        await pool.resize(ask(workers, fence=fence))
        await until(pool, settled(workers), f"{workers} ready workers")
    if moment:
        die_at(moment, call=call)
    for fence, workers in sizes[-1:]:
        await pool.resize(ask(workers, fence=fence))
    sys.stdout.write("asked\n")
    sys.stdout.flush()
    await stop.wait()
    await pool.close(keep_workers=True)


if __name__ == "__main__":
    _, directory, owned, asked, moment, call = sys.argv
    sizes = [(int(fence), int(size)) for fence, size in (one.split(":") for one in asked.split(",") if one)]
    asyncio.run(main(Path(directory), owned=owned == "owned", sizes=sizes, moment=moment, call=int(call)))
