"""Which processes a run started, and which of them are still there after it."""

from __future__ import annotations

import psutil


class Children:
    """Remembers every descendant of this process that it was shown, to ask after them later."""

    def __init__(self) -> None:
        self._known: set[psutil.Process] = set()

    def look(self) -> None:
        """Remember who is there now."""
        self._known.update(psutil.Process().children(recursive=True))

    def alive(self) -> list[psutil.Process]:
        """Those that still run. A process id used again by a stranger does not count."""
        return [child for child in self._known if child.is_running() and not _is_dead(child)]


def _is_dead(child: psutil.Process) -> bool:
    try:
        return bool(child.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
