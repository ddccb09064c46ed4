"""Leaving when asked: in order the first time, at once the second."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from threading import Event, Thread
from types import FrameType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_OVER: Final = b"\0"
"""No signal has this number."""


class Departure:
    """Hears SIGTERM and SIGINT while the context lasts. For the main thread.

    What is to be done is done by a thread of its own: Python's handlers wait until the main thread is
    back from whatever it called, and a GPU that hangs does not let it come back.
    """

    def __init__(self) -> None:
        self.asked = Event()
        self._first: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}
        self._listener = Thread(target=self._listen, name="departure", daemon=True)

    def __enter__(self) -> Self:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._written_before = signal.set_wakeup_fd(self._writing)
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, _leave_it_to_the_listener)
        os.register_at_fork(
            before=self._hold_signals, after_in_parent=self._let_signals, after_in_child=self._part
        )
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_hearing()
        os.write(self._writing, _OVER)  # behind what is yet to be heard
        self._listener.join()
        os.close(self._writing)
        os.close(self._reading)

    def begins_with(self, first: Callable[[], None]) -> None:
        """Call `first` when asked to leave; now, when that has happened already. Twice must be once to it."""
        self._first = first
        if self.asked.is_set():
            first()

    def _stop_hearing(self) -> None:
        """All as it was before the context."""
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)
            signal.set_wakeup_fd(self._written_before)

    def _hold_signals(self) -> None:
        """Before a fork: until the new process has parted with us, it hears nothing in our name."""
        if self._before:
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    def _let_signals(self) -> None:
        if self._before:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _part(self) -> None:
        """In the new process, such as a data loader's: what it is told is not told to us."""
        if self._before:
            self._stop_hearing()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)

    def _listen(self) -> None:
        while (heard := os.read(self._reading, 1)) != _OVER:
            if heard[0] in _SIGNALS:
                self._hear(heard[0])

    def _hear(self, number: int) -> None:
        if self.asked.is_set():
            os._exit(128 + number)  # in a hurry: the leases lapse
        self.asked.set()
        if self._first is not None:
            self._first()


def _leave_it_to_the_listener(number: int, frame: FrameType | None) -> None:
    """Without a handler of Python's the number would not be written."""
    del number, frame
