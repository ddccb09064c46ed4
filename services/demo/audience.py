"""Who watches a demo: a person at a terminal, or a script that reads the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol

import structlog
import typer
from rich.console import Console
from rich.live import Live

from services.control.loop import Tick
from services.demo.view import LiveView
from services.demo.visit import Visit
from services.logs import configure_logs
from services.settings.root import LogSettings

log = structlog.get_logger()

_BESIDE_THE_VIEW: Final = LogSettings(level="warning")
"""What a terminal is told while there is no file for the rest."""


class Audience(Protocol):
    """Told of every tick, and of events in words."""

    def watching(self, visit: Visit, *, slo_s: float, directory: Path) -> AbstractContextManager[None]:
        """From the moment the page can be visited until the run has ended."""
        ...

    def told(self, tick: Tick) -> None: ...

    def say(self, event: str) -> None: ...


class Headless:
    """Logs to standard error."""

    def __init__(self) -> None:
        configure_logs(LogSettings())

    @contextmanager
    def watching(self, visit: Visit, *, slo_s: float, directory: Path) -> Iterator[None]:
        """Logs where to look. The token is printed, not logged: logs are kept and shared."""
        del directory
        log.info("demo_started", page=visit.page, metrics=f"{visit.operations}/metrics", slo_s=slo_s)
        typer.echo(visit.invitation())
        yield

    def told(self, tick: Tick) -> None:
        """The journal logs what matters already."""

    def say(self, event: str) -> None:
        """As an event of the log."""
        log.info("demo_went_on", what=event)


class AtTerminal:
    """Draws the live view; the log goes to a file in the run's directory meanwhile."""

    def __init__(self, console: Console, *, title: str) -> None:
        configure_logs(_BESIDE_THE_VIEW)
        self._console = console
        self._title = title
        self._view: LiveView | None = None

    @contextmanager
    def watching(self, visit: Visit, *, slo_s: float, directory: Path) -> Iterator[None]:
        """Draws until the context ends."""
        self._console.print(visit.invitation(), markup=False, highlight=False, soft_wrap=True)
        self._view = LiveView(slo_s=slo_s, address=visit.page, title=self._title)
        with (directory / "controller.log").open("w", encoding="utf-8") as file:
            configure_logs(LogSettings(), stream=file)
            try:
                with Live(self._view, console=self._console, refresh_per_second=4):
                    yield
            finally:
                configure_logs(_BESIDE_THE_VIEW)

    def told(self, tick: Tick) -> None:
        """Into the charts."""
        if self._view is not None:
            self._view.told(tick)

    def say(self, event: str) -> None:
        """Into the events."""
        if self._view is not None:
            self._view.say(event)
