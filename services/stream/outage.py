"""Tell once that something went away, and once that it is back: not at every retry."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

import structlog

_log = structlog.get_logger(__name__)


class Outage:
    """Whether one server answers, with the wait before the next try while it does not. For any thread."""

    def __init__(
        self,
        server: str,
        *,
        first_wait_s: float = 0.1,
        longest_wait_s: float = 2.0,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._first_wait_s = first_wait_s
        self._longest_wait_s = longest_wait_s
        self._now_s = now_s
        self._since_s: float | None = None
        self._wait_s = first_wait_s
        self._retry_at_s = 0.0
        self._telling = Lock()

    @property
    def over(self) -> bool:
        """Whether asking makes sense: the server answered last, or the wait is over."""
        return self._since_s is None or self._now_s() >= self._retry_at_s

    @property
    def answering(self) -> bool:
        """Whether the server answered when last asked."""
        return self._since_s is None

    def failed(self, error: Exception | str) -> None:
        """It did not answer. Waits get longer, up to a limit."""
        now_s = self._now_s()
        with self._telling:
            first = self._since_s is None
            if first:
                self._since_s = now_s
                self._wait_s = self._first_wait_s
            self._retry_at_s = now_s + self._wait_s
            self._wait_s = min(self._wait_s * 2, self._longest_wait_s)
        if first:
            _log.warning("server_lost", server=self._server, error=str(error), remedy="waiting and retrying")

    def answered(self) -> None:
        """It answered."""
        if self._since_s is None:
            return
        with self._telling:
            since_s, self._since_s = self._since_s, None
        if since_s is not None:
            _log.info("server_back", server=self._server, away_s=round(self._now_s() - since_s, 1))
