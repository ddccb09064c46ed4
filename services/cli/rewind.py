"""`penstock rewind`: where a job stands in its topic, and how to move it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from services.settings.load import SettingsError, load_settings
from services.settings.root import Settings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.stream import position
from services.stream.errors import StreamError
from services.stream.plan import StreamPlan
from services.stream.ports import LeaseLedger
from services.stream.redis_ledger import RedisLedger
from services.stream.topic import Topic
from shuffler.errors import LedgerError

Job = Annotated[str, typer.Argument(help="The job's name in the settings.")]
Config = Annotated[Path | None, typer.Option(help="Settings file; PENSTOCK_ variables come before it.")]


def rewind(
    job: Job,
    to: Annotated[str, typer.Option(help="earliest, latest, a time, or offsets such as 0:1500,1:1480.")],
    config: Config = None,
) -> None:
    """Move a job to another position of its topic; its workers may run on.

    Examples:

      penstock rewind clicks --to earliest

      penstock rewind clicks --to 2026-01-31T08:00:00Z

      penstock rewind clicks --to 0:1500,1:1480
    """
    target = _target(to)

    def how(_: Settings, topic: Topic, ledger: LeaseLedger) -> dict[int, int]:
        unknown = sorted(set(target) - set(topic.partitions())) if isinstance(target, dict) else []
        if unknown:
            raise typer.BadParameter(f"--to names partition {unknown[0]}, which {topic.name!r} does not have")
        return position.rewind(topic, ledger, target)

    move("rewind", job, config, how, f"{job} goes on")


def _target(text: str) -> position.Target:
    """
    >>> _target("0:15,2:7")
    {0: 15, 2: 7}
    """
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if re.fullmatch(r"\d+:\d+(,\d+:\d+)*", text):
        pairs = (pair.split(":") for pair in text.split(","))
        return {int(partition): int(offset) for partition, offset in pairs}
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"--to {text!r} is no position; write earliest, latest, 2026-01-31T08:00:00Z or 0:1500,1:1480"
        ) from error
    return moment if moment.tzinfo else moment.astimezone()


@contextmanager
def _at_desk(command: str, job: str, config: Path | None) -> Iterator[tuple[Settings, Topic, LeaseLedger]]:
    """The job's topic and ledger. What goes wrong is said in one line, with exit code 1."""
    try:
        settings = load_settings(config)
        if job not in settings.jobs:
            names = ", ".join(sorted(settings.jobs)) or "none"
            raise typer.BadParameter(f"{job!r} is not in the settings (there: {names})")
        plan = StreamPlan.of(job, settings.jobs[job])
        with (
            closing(connect_sync(settings.redis)) as client,
            closing(Topic(settings.kafka, plan.topic, plan.group)) as topic,
        ):
            yield settings, topic, RedisLedger(client, Keys(settings.redis.prefix), job, plan.terms)
    except (SettingsError, StreamError, LedgerError) as error:
        typer.echo(f"penstock {command}: {error}", err=True)
        raise typer.Exit(1) from error


def move(
    command: str,
    job: str,
    config: Path | None,
    how: Callable[[Settings, Topic, LeaseLedger], dict[int, int]],
    done: str,
) -> None:
    """Do `how` at the job's topic and ledger, and say where that left it."""
    with _at_desk(command, job, config) as (settings, topic, ledger):
        _tell(done, how(settings, topic, ledger))


def _tell(done: str, offsets: dict[int, int]) -> None:
    shown = ", ".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items())[:8])
    more = f" and {len(offsets) - 8} more" if len(offsets) > 8 else ""
    typer.echo(f"{done} at {shown}{more}" if offsets else f"{done}: nothing to move")
