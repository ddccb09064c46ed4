"""`penstock demo`: the whole loop on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from estimator.rules import RULES
from services.demo.audience import AtTerminal, Headless
from services.demo.report import DemoReport
from services.demo.run import run_demo
from services.demo.scenario import Scenario
from services.demo.servers import ServerUnavailable
from services.demo.shard_processes import ShardsNotReady
from services.embedded.errors import EmbeddedError


def demo(
    *,
    minutes: Annotated[float, typer.Option(min=0.1, help="Stop after this many minutes.")] = 10.0,
    speed_up: Annotated[
        float, typer.Option(min=1.0, help="Simulated seconds per second; 144 plays a day in ten minutes.")
    ] = 144.0,
    rate: Annotated[float, typer.Option(min=1.0, help="Mean samples per second.")] = 1500.0,
    policy: Annotated[
        str, typer.Option(help=f"Who decides on the number of workers: {', '.join(sorted(RULES))}.")
    ] = "penstock",
    seed: Annotated[int, typer.Option(min=0, help="The same seed plays the same traffic.")] = 1,
    run_up: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="Play this long first with a pool set by hand; figures count from there.",
        ),
    ] = 0.0,
    kafka: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Use this Kafka instead of the embedded one.")
    ] = None,
    redis: Annotated[
        str | None, typer.Option(metavar="URL", help="Use this Redis instead of the embedded one.")
    ] = None,
    headless: Annotated[bool, typer.Option(help="Log events instead of drawing the live view.")] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figures of the run as JSON.")
    ] = None,
) -> None:
    """Play a synthetic day of traffic through the whole loop, and watch the pool follow it.

    Starts an embedded Kafka and Redis, a traffic generator, the controller with REST and /metrics, a
    parameter server, and a pool of worker processes that learn from the topic (a step takes as long as
    on a slower device). The AUC shown is of clicks that the model has not seen yet.
    Ends after --minutes or on Ctrl-C, with a summary; nothing is left behind.
    """
    if policy not in RULES:
        raise typer.BadParameter(f"{policy!r} is none of {', '.join(sorted(RULES))}", param_hint="--policy")
    scenario = Scenario(
        minutes=minutes, speed_up=speed_up, mean_per_s=rate, seed=seed, rule=policy, run_up_s=run_up
    )
    console = Console()
    title = f"Penstock demo: a day in {86_400 / speed_up / 60:.3g} minutes, policy {policy}"
    audience = Headless() if headless else AtTerminal(console, title=title)
    try:
        result = run_demo(scenario, audience, kafka=kafka, redis=redis)
    except (ServerUnavailable, ShardsNotReady, EmbeddedError) as error:
        typer.echo(f"penstock demo: {error}", err=True)
        raise typer.Exit(1) from error
    if report is not None:
        result.write(report)
    console.print(result.table())
    _judge(result)


def _judge(result: DemoReport) -> None:
    """A run that lost a sample or left a process is a failure, and a script must see it."""
    if result.trained + result.lost < result.produced or result.orphans:
        typer.echo("penstock demo: not everything was trained, or a process was left behind", err=True)
        raise typer.Exit(1)
