"""`penstock handback`: let a consumer group go on where a job stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.rewind import Config, Job, move
from services.stream import position


def handback(
    job: Job,
    group: Annotated[str, typer.Option("--to", help="The consumer group that goes on.")],
    config: Config = None,
) -> None:
    """Commit how far a job is trained for a consumer group of your own. The job's workers must be gone.

    Example: penstock handback clicks --to old-trainer
    """
    move(
        "handback",
        job,
        config,
        lambda settings, topic, ledger: position.hand_back(topic, ledger, settings.kafka, group),
        f"{group} goes on",
    )
