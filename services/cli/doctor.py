"""`penstock doctor`: what is wrong with a set-up, and how to mend it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from services.cli.shown import table_of, waiting
from services.doctor.finding import Finding, Verdict
from services.doctor.kafka_cluster import check_kafka
from services.doctor.machine import check_pools, check_versions
from services.doctor.redis_server import check_redis
from services.doctor.stored_jobs import check_stored_jobs
from services.settings import SettingsError, load_settings

_STYLES = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.WRONG: "bold red"}


def doctor(
    config: Annotated[
        Path | None, typer.Option(help="YAML file with the settings. PENSTOCK_ variables win over it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check settings, Kafka, topics, Redis, worker pools, clock and versions.

    Says what is wrong and how to mend it. Exits with 1 when something is wrong, 0 otherwise;
    changes nothing.
    """
    with waiting("looking at settings, Kafka, Redis and pools"):
        findings = list(_findings(config))
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        Console().print(_table(findings))
    if any(finding.verdict is Verdict.WRONG for finding in findings):
        raise typer.Exit(1)


def _findings(config: Path | None) -> Iterator[Finding]:
    yield from check_versions()
    try:
        settings = load_settings(config)
    except SettingsError as error:
        yield Finding("settings", Verdict.WRONG, str(error), "docs/configuration.md has all settings")
        return
    yield Finding("settings", Verdict.OK, f"{len(settings.jobs)} job(s)")
    yield from check_kafka(settings)
    yield from check_redis(settings.redis)
    yield from check_stored_jobs(settings)
    yield from check_pools(settings)


def _table(findings: list[Finding]) -> Table:
    rows = [
        (finding.what, Text(finding.verdict, _STYLES[finding.verdict]), finding.detail, finding.remedy)
        for finding in findings
    ]
    return table_of(("check", "", "found", "what to do"), rows)
