"""Structured logs: past-tense events with fields, for people or for machines."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog

from services.settings.root import LogSettings


def configure_logs(settings: LogSettings, *, stream: TextIO | None = None) -> None:
    """Send every event to `stream` (standard error when not given) in the format asked for."""
    out = stream or sys.stderr
    renderer: structlog.typing.Processor
    if settings.format == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=out.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, settings.level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
