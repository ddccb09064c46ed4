"""`penstock backtest`: what every policy would have done on a trace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer


def backtest(
    trace: Annotated[
        Path | None,
        typer.Argument(
            help="CSV with `timestamp,rate`: seconds or ISO 8601, rate per second.", show_default=False
        ),
    ] = None,
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A policy to judge, as NAME or NAME:option=value,...; repeatable. All of them by default. "
            "NAME@FORECASTER gives it a forecaster of its own."
        ),
    ] = None,
    plant: Annotated[Path | None, typer.Option(help="YAML with the plant; see docs/evaluation.md.")] = None,
    fleet: Annotated[
        str | None,
        typer.Option(
            help="Instead of one job: many on one GPU budget, a YAML file or builtin:contended, calm, "
            "shifted or small; policies: penstock, static, fcfs, gavel, sia. See docs/fleet.md."
        ),
    ] = None,
    frontier: Annotated[
        bool,
        typer.Option("--frontier", help="Sweep each policy's own knob and read across against --baseline."),
    ] = False,
    baseline: Annotated[str, typer.Option(help="The policy that frontiers are read across against.")] = "hpa",
    forecaster: Annotated[
        str,
        typer.Option(
            help="`light`; `served`: trained models, mixed, retrained on what came before; or one network "
            "alone by its name: fedformer, nhits, patchtst, seq2seq (all but patchtst need torch)."
        ),
    ] = "light",
    json: Annotated[Path | None, typer.Option(help="Write all figures here.")] = None,
    arrivals: Annotated[Path | None, typer.Option(help="Write the per-minute rates used here.")] = None,
    decisions: Annotated[
        Path | None,
        typer.Option(
            help="Write every change asked for here; with several policies, one file each: F.POLICY.csv."
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a report with charts here.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes to use.")] = min(os.cpu_count() or 1, 8),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the noise, of start-ups and of crashes.")] = 1,
    days: Annotated[
        float | None, typer.Option(help="Score at most this many days after the warm-up.")
    ] = None,
    oracle: Annotated[
        bool, typer.Option("--oracle/--no-oracle", help="Compute the clairvoyant limit.")
    ] = True,
    replay: Annotated[
        Path | None, typer.Option(help="Instead: check a recorded live run (JSON) against its simulation.")
    ] = None,
) -> None:
    """Judge every policy on a trace: late samples, GPU-hours, pauses, and how far from the best possible."""
    one_job: dict[str, object] = {
        "--plant": plant,
        "--arrivals": arrivals,
        "--decisions": decisions,
        "--html": html,
    }
    one_job |= {"--frontier": frontier or None, "--forecaster": None if forecaster == "light" else forecaster}
    if replay is not None:
        judging = {
            "TRACE": trace,
            "--policy": policy or None,
            "--fleet": fleet,
            "--json": json,
            "--days": days,
        }
        _refuse("--replay", judging | one_job)
    # The simulator brings a compiler along: `penstock --help` must not wait for it.
    if fleet is not None:
        _refuse("--fleet", one_job)
        from services.simulator.fleet.session import FleetSession  # noqa: PLC0415

        asked = FleetSession(fleet, trace, tuple(policy or ()), seed=seed, days=days, json=json)
        raise typer.Exit(asked.run())
    from services.simulator.session import Outputs, Session  # noqa: PLC0415

    session = Session(
        trace=trace,
        policies=tuple(policy or ()),
        plant=plant,
        baseline=baseline if frontier else None,
        forecaster=forecaster,
        seed=seed,
        days=days,
        with_oracle=oracle,
        jobs=jobs,
        outputs=Outputs(json=json, arrivals=arrivals, decisions=decisions, html=html),
        replay=replay,
    )
    raise typer.Exit(session.run())


def _refuse(beside: str, given: Mapping[str, object]) -> None:
    """What would be passed over without a word."""
    useless = [name for name, value in given.items() if value is not None]
    if useless:
        raise typer.BadParameter(f"{', '.join(useless)} can do nothing beside {beside}; leave it out")
