"""Which of the pool objects on one directory supervises it."""

from __future__ import annotations

import os
from dataclasses import replace
from uuid import uuid4

from services.actuator.moment import Moment
from services.actuator.run_files import Fence, RunFiles, Supervisor
from services.actuator.worker_process import process_of

_SILENT_S = 5.0
"""A supervisor without a sign of life for this long is stopped or hangs: another takes over."""


class Claim:
    """One pool object's claim to supervise. The claim in force stands beside the intent on disk.

    Whoever holds it is asked about under the lock before every change, so a supervisor that was
    superseded while it was stopped finds out before it can do anything.
    """

    def __init__(self, files: RunFiles) -> None:
        process = process_of(os.getpid())
        if process is None:
            raise OSError("this process cannot find itself in the system's process table")
        self._us = Supervisor(uuid4().hex, process)
        self._files = files
        self._sign = 0
        self._sign_seen_s = 0.0

    def held(self, fence: Fence) -> bool:
        """Whether we supervise."""
        return fence.supervisor == self._us

    def taken(self, fence: Fence) -> Fence:
        """The fence file with us as supervisor."""
        return replace(fence, supervisor=self._us)

    def released(self, fence: Fence) -> Fence:
        """The fence file with no supervisor, if it was us."""
        return replace(fence, supervisor=None) if self.held(fence) else fence

    def open_to_us(self, fence: Fence, now: Moment) -> bool:
        """Whether nobody supervises any more.

        Silence is measured by our own steady clock, from when we last saw the sign change: the
        wall clock may have been stepped.
        """
        if fence.supervisor is None or not fence.supervisor.process.alive():
            return True
        sign = self._files.sign_of_life()
        if sign != self._sign:
            self._sign, self._sign_seen_s = sign, now.steady_s
        return now.steady_s - self._sign_seen_s >= _SILENT_S
