"""Whoever sits at a terminal sees the view and not the log, but for what is wrong before there is a view."""

from __future__ import annotations

import sys
from io import StringIO

import pytest
import structlog
from rich.console import Console

from services.demo.audience import AtTerminal
from services.logs import configure_logs
from services.settings.root import LogSettings


def test_before_the_view_is_drawn_only_what_is_wrong_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    AtTerminal(Console(file=StringIO()), title="demo")
    try:
        structlog.get_logger().info("leadership_taken")
        structlog.get_logger().warning("redis_is_slow")
    finally:
        configure_logs(LogSettings(), stream=sys.__stderr__)

    told = capsys.readouterr()
    assert "leadership_taken" not in told.out + told.err
    assert "redis_is_slow" in told.out + told.err
