"""`penstock takeover`: go on where a consumer group stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from services.cli.rewind import Config, Job, move
from services.stream import position


def takeover(
    job: Job,
    group: Annotated[str, typer.Option("--from", help="The consumer group that trained the topic so far.")],
    config: Config = None,
) -> None:
    """Start a job with leases where a consumer group stopped. Its members must have left.

    Example: penstock takeover clicks --from old-trainer
    """
    move(
        "takeover",
        job,
        config,
        lambda settings, topic, ledger: position.take_over(topic, ledger, settings.kafka, group),
        f"{job} takes over from {group}",
    )
