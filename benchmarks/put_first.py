"""Put a benchmark's processes before everybody else's, on a machine that is not idle. Linux, as root."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_NICE: Final = -10
_GROUP_NICE: Final = -19


def put_first(*pids: int) -> None:
    """Raise the priority of these processes and of those that they start from now on.

    Where the kernel schedules by session (`sched_autogroup_enabled`), a nice value counts within a session
    only, and the servers of a benchmark have sessions of their own: each session is raised, too.
    Raises PermissionError.
    """
    for pid in pids:
        os.setpriority(os.PRIO_PROCESS, pid, _NICE)
        group = Path(f"/proc/{pid}/autogroup")
        if group.exists():
            group.write_text(str(_GROUP_NICE), encoding="ascii")
