"""In CI a test that is skipped fails, unless its reason is on the short list in the tree.

On a user's machine a missing server is no mistake, and the reason says what to install. In CI it
means that nobody tests that part any more, which must not go unnoticed. `CI=true` turns this on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

LIST_DEFAULT = Path(__file__).parents[1] / "allowed_skips.txt"
_ALLOWED = pytest.StashKey[tuple["AllowedSkip", ...]]()


@dataclass(frozen=True)
class AllowedSkip:
    """A reason for skipping that is fine in CI, and why it is."""

    pattern: re.Pattern[str]
    why: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("penstock").addoption(
        "--allowed-skips", metavar="FILE", type=Path, default=LIST_DEFAULT, help="skips that are fine in CI"
    )


def pytest_configure(config: pytest.Config) -> None:
    if not in_ci():
        return
    path: Path = config.getoption("--allowed-skips")
    try:
        config.stash[_ALLOWED] = read_allowed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"{path}: {error}") from error


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        _fail_unless_allowed(item.config, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped:
        _fail_unless_allowed(collector.config, report)
    return report


def in_ci() -> bool:
    """Whether this is CI, as every CI service says it: `CI=true`."""
    return os.environ.get("CI", "").lower() in ("true", "1", "yes")


def read_allowed(text: str) -> tuple[AllowedSkip, ...]:
    """The entries of the list. Raises ValueError, naming the line, for one without a reason.

    >>> [entry.why for entry in read_allowed("needs a GPU  # CI has none")]
    ['CI has none']
    """
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, mark, why = line.partition("  # ")
        if not mark or not pattern.strip() or not why.strip():
            raise ValueError(f"line {number}: want `pattern  # why`, not {line!r}")
        try:
            entries.append(AllowedSkip(re.compile(pattern.strip()), why.strip()))
        except re.error as error:
            raise ValueError(
                f"line {number}: {pattern.strip()!r} is no regular expression: {error}"
            ) from error
    return tuple(entries)


def _fail_unless_allowed(config: pytest.Config, report: pytest.TestReport | pytest.CollectReport) -> None:
    allowed = config.stash.get(_ALLOWED, None)
    if allowed is None:  # not in CI
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    if any(entry.pattern.search(reason) for entry in allowed):
        return
    path = config.getoption("--allowed-skips").name
    report.outcome = "failed"
    report.longrepr = f"skipped in CI: {reason}\nMake it run there, or add the reason to {path} and say why."
