"""Every command in the documentation, and who runs it: a test of its own, or test_docs_run.py."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.queries import DEPLOY

ROOT = DEPLOY.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_SHELL = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
_INLINE = re.compile(r"`((?:\.venv/bin/)?(?:penstock|make) [^`]+)`")
_STARTS = ("penstock ", ".venv/bin/penstock ", "make ", "docker ", "kubectl ", "curl ")

RUN_BY = {
    "make test": ".ci/run",
    "make install": ".ci/run",
    "make demo": "tests/e2e/test_demo.py",
    "docker compose": "tests/integration/compose.py",
    "docker build": "tests/integration/test_compose.py",
    "kubectl": "tests/deploy/cluster.py",
    "openssl": "tests/deploy/test_keda_guide.py",
    "penstock demo": "tests/e2e/test_demo.py",
    "penstock serve": "tests/e2e/test_serve.py",
    "penstock doctor": "tests/doctor/test_doctor.py",
    "penstock events": "tests/cli/test_operators.py",
    "penstock rewind": "tests/stream/test_position.py",
    "penstock takeover": "tests/stream/test_position.py",
    "penstock handback": "tests/stream/test_position.py",
    "penstock backfill": "tests/meter/test_backfill_command.py",
    "penstock shard": "tests/trainer/learning.py",
    "penstock worker": "tests/trainer/learning.py",
    "penstock forecast": "tests/deploy/test_tutorial.py",
    "penstock fleet": "tests/cli/test_operators.py",
    "penstock backtest": "tests/deploy/test_tutorial.py",
}
"""Commands that take more than a moment, or more than a server: the test that runs each."""


@dataclass(frozen=True)
class Command:
    """One command of a page."""

    page: Path
    words: tuple[str, ...]
    remark: str = ""
    """What stands behind it on its line."""

    def __str__(self) -> str:
        return f"{self.page.name}: {' '.join(self.words)}"

    @property
    def takes_hours(self) -> bool:
        """Run in whole by nobody but the reader, who is told so."""
        return "takes hours" in self.remark

    @property
    def run_by(self) -> Path | None:
        """The test that runs it; None for those of test_docs_run.py."""
        plain = " ".join(self.words).removeprefix(".venv/bin/")
        found = (where for what, where in RUN_BY.items() if plain == what or plain.startswith(f"{what} "))
        where = next(found, None)
        return None if where is None else ROOT / where


def commands(page: Path | None = None) -> Iterator[Command]:
    """Those of one page, or of all, in their order."""
    for each in PAGES if page is None else [page]:
        for block in _SHELL.findall(each.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                typed, _, remark = line.partition("#")
                for part in typed.split(";"):
                    if words := tuple(shlex.split(part)):
                        yield Command(each, words, remark)


def mentioned(page: Path) -> Iterator[Command]:
    """Commands of Penstock and make in the middle of a sentence. They are run by nobody, and must exist."""
    for found in _INLINE.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        yield Command(page, tuple(found.split()))


def commands_in_other_blocks(page: Path) -> list[str]:
    """Lines that look like commands where no test would find them: in other fences, or only indented."""
    text = page.read_text(encoding="utf-8")
    fenced = (block for language, block in _FENCE.findall(text) if language != "sh")
    indented = (line.strip() for line in _FENCE.sub("", text).splitlines() if line.startswith("    "))
    lines = [line for block in fenced for line in block.splitlines()] + list(indented)
    return [line for line in lines if line.startswith(_STARTS)]
