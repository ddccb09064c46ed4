"""Start a process that waits at a gate until it is written down.

Between a fork and the note of its pid a controller can be killed, and then nobody knows of the
worker: its successor would start another in its place. So the child starts as a shell that waits
for a line on its standard input. Only once the pid is on disk is the gate opened and the shell
replaced by the worker, under the same pid. A controller that dies before that closes the gate by
dying: the shell reads the end of file and leaves.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from services.actuator.worker_process import WorkerProcess, process_of

_GATE = 'read -r _ && exec "$@" </dev/null'


@dataclass(slots=True)
class HeldStart:
    """A process at the gate."""

    process: WorkerProcess
    gate: int
    released: bool = False

    def release(self) -> None:
        """Let it run."""
        self.released = True
        with suppress(BrokenPipeError):  # it was killed at the gate; whoever polls it will see
            os.write(self.gate, b"\n")


@contextmanager
def held_start(
    command: Sequence[str], *, env: Mapping[str, str], output: int, keep_fds: Collection[int] = ()
) -> Iterator[HeldStart]:
    """Start `command` in a session of its own, held until `release()`; not released, it ends with
    the block and leaves nothing. Raises OSError when no process can be had."""
    gate_in, gate_out = os.pipe()
    try:
        try:
            child = _Child(
                ["/bin/sh", "-c", _GATE, "penstock-worker", *command],
                stdin=gate_in,
                stdout=output,
                stderr=output,
                env=dict(env),
                pass_fds=tuple(keep_fds),
                start_new_session=True,
            )
        finally:
            os.close(gate_in)
        process = process_of(child.pid)
        if process is None:  # a child is at least a zombie until we reap it
            raise OSError(f"process {child.pid} vanished although nobody reaped it")
        held = HeldStart(process, gate_out)
        try:
            yield held
        finally:
            if not held.released:
                process.kill()
                child.wait()
    finally:
        os.close(gate_out)


class _Child(subprocess.Popen[bytes]):
    """Workers may outlive this object and even this process, and are reaped by pid.

    The standard class, when forgotten, warns of a child that still runs and reaps it at the next
    start of any other, so that its exit code would be lost.
    """

    def __del__(self) -> None:
        """Nothing: see above."""
