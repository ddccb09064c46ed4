"""A worker that refuses to outlive its owner."""

from __future__ import annotations

import os
from threading import Thread
from typing import Final

OWNER_FD: Final = "PENSTOCK_OWNER_FD"
"""Names the descriptor of a pipe whose other end the owner holds open for as long as it lives."""

EXIT_ORPHANED: Final = 71


def end_with_owner() -> None:
    """End this process, at once, when the pipe named by PENSTOCK_OWNER_FD says end-of-file.

    The kernel closes the owner's end however the owner dies, so this needs no signal and no polling.
    Nothing happens when the variable is not set: the process is then on its own.
    """
    named = os.environ.pop(OWNER_FD, None)
    if named is None:
        return
    pipe = int(named)
    os.set_inheritable(pipe, False)
    Thread(target=_watch, args=(pipe,), name="owner-watch", daemon=True).start()


def _watch(pipe: int) -> None:
    while os.read(pipe, 1024):
        pass  # whatever the owner writes, only its end counts
    os._exit(EXIT_ORPHANED)
