"""A worker that trains nothing, started by the tests of the process pool as a process of its own.

What it does is told by its argument; with none it becomes ready and waits for SIGTERM, or for the
end of file of its owner's pipe. Only the standard library's quickest parts: it starts often.
"""

import os
import signal
import sys
from typing import NoReturn


def main(how: str) -> NoReturn:
    """Be the worker."""
    handler = signal.SIG_IGN if how == "ignores-sigterm" else lambda *_: os._exit(0)
    signal.signal(signal.SIGTERM, handler)
    if how == "counts-sigterms":
        signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"asked to leave\n"))
    if how == "dies-at-start":
        os.write(2, b"cannot find the topic\n")
        os._exit(3)
    if how == "has-a-child" and os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _wait_for_ever()
    if how != "never-ready":
        os.close(os.open(os.environ["PENSTOCK_READY_FILE"], os.O_CREAT | os.O_WRONLY))
    if how == "dies-once-ready":
        os.write(1, b"out of memory\n")
        os._exit(4)
    if "PENSTOCK_OWNER_FD" in os.environ:
        os.read(int(os.environ["PENSTOCK_OWNER_FD"]), 1)
        os._exit(0)
    _wait_for_ever()


def _wait_for_ever() -> NoReturn:
    while True:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "trains")
