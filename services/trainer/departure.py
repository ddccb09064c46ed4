"""Leaving when asked: in order the first time, at once the second."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from threading import Event
from types import FrameType
from typing import Any, Self


class Departure:
    """Hears SIGTERM and SIGINT while the context lasts. For the main thread."""

    def __init__(self) -> None:
        self.asked = Event()
        self._first: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def begins_with(self, first: Callable[[], None]) -> None:
        """Call `first` when asked to leave; now, when that has happened already."""
        self._first = first
        if self.asked.is_set():
            first()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.asked.is_set():
            os._exit(128 + number)  # in a hurry: the leases lapse
        self.asked.set()
        if self._first is not None:
            self._first()
