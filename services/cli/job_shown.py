"""How one job is shown, and where its routes are: what the commands of `penstock job` have in common."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from services.cli.client import Reply, quoted
from services.cli.forecast import duration_s
from services.cli.shown import at, facts, share, show, written

Name = Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")]
IfVersion = Annotated[
    int | None, typer.Option(help="Only if the job is at this version; by default whatever it is at.")
]


def job_path(name: str, part: str = "") -> str:
    """Where the job, or a part of it, is."""
    if not name:
        raise typer.BadParameter("the job's name is empty")  # its address would be that of all jobs
    return f"/v1/jobs/{quoted(name)}{part}"


def etag_of(version: int | None) -> str:
    """What If-Match says for a version, or for any.

    >>> etag_of(12), etag_of(None)
    ('"12"', '*')
    """
    return "*" if version is None else f'"{version}"'


def state_of(document: dict[str, Any]) -> Text:
    """How the job does, and what somebody has set by hand: a paused job can be late too."""
    late = document["lag_s"] is not None and document["lag_s"] > document["fresh_within_s"]
    if document["degraded"]:
        state = Text("degraded", "bold red")
    else:
        state = Text("late", "bold red") if late else Text("on time", "green")
    for hand in ("paused", "override"):
        if document[hand]:
            state.append(f", {hand}", "yellow")
    return state


def late_so_far(document: dict[str, Any]) -> Text:
    """The share that was late; red where it is more than may be."""
    late, most = document["late_share"], document["late_share_target"]
    return Text(share(late), "bold red" if late is not None and late > most else "")


def job_facts(d: dict[str, Any]) -> Table:
    """One job, its definition and how it does; what does not apply is left out."""
    paused, override = d["paused"], d["override"]
    ready, requested, planned = (written(d[size]) for size in ("ready", "requested", "planned"))
    known: dict[str, object] = {
        "job": f"{d['id']} (version {d['version']})",
        "changed": f"{at(d['changed_at_s'])} UTC by {d['changed_by']}",
        "state": state_of(d),
        "trouble": d["trouble"],
        "topic": f"{d['topic']}, group {d['group']}",
        "promise": f"trained within {d['fresh_within_s']:g} s, {share(d['late_share_target'])} may be late",
        "late so far": late_so_far(d),
        "traffic": d["rate_per_s"] is not None and f"{written(d['rate_per_s'])} samples/s",
        "lag": d["lag_s"] is not None and f"{d['lag_s']:.1f} s",
        "workers": f"{ready} ready, {requested} requested, {planned} planned "
        f"(allowed {d['workers_min']} to {d['workers_max']})",
        "mode": d["mode"],
        "paused": paused
        and f"{at(paused['at_s'])} UTC by {paused['by']}: {paused['reason'] or 'no reason given'}",
        "override": override and f"{override['workers']} workers until {at(override['until_s'])} UTC",
        "why": override and f"{override['reason']} ({override['by']})",
    }
    return facts({name: value for name, value in known.items() if value})


def show_changed(reply: Reply, as_json: bool) -> None:
    """The job as it is after a change."""
    show(reply.document, as_json, job_facts)


def terms_of(known: dict[str, Any], fresh_within: str | None, late_share: float | None) -> dict[str, float]:
    """The promise asked for; what is not said stays."""
    return {
        "fresh_within_s": known["fresh_within_s"] if fresh_within is None else duration_s(fresh_within),
        "late_share_target": known["late_share_target"] if late_share is None else late_share,
    }
