"""`penstock events`: what happens on a running controller, as it happens."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from services.cli.client import Refused, Unreachable
from services.cli.shown import SERVER, CaFile, Server, asking_server, at

_AGAIN_S = (1.0, 2.0, 5.0, 10.0)
_PASSING = (429, 502, 503, 504)
"""What a controller, or a proxy before it, says for a while only."""


def events(
    *,
    job: Annotated[str | None, typer.Option(help="Only events of this job.")] = None,
    kinds: Annotated[
        str, typer.Option(help="Which, with commas between: decision, trouble, job, tick.")
    ] = "decision,trouble,job",
    since: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on after the event with this id.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many.")] = None,
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Decisions, trouble and changes of jobs, as they happen; until Ctrl-C, through lost connections."""
    query = "?" + urlencode({"kinds": kinds} | ({"job": job} if job else {}))
    left, lost, last = count, 0, since
    with asking_server("events", server, ca_file) as client:
        while True:
            try:
                for event in client.events(query, last=last):
                    last, lost = event.last, 0
                    if event.data is None:
                        continue
                    told = {"id": last, "kind": event.kind, **event.data}
                    typer.echo(json.dumps(told) if as_json else line(event.kind, event.data))
                    left = None if left is None else left - 1
                    if left == 0:
                        return
            except (Unreachable, Refused) as error:
                # A controller that starts, or whose store is away, says 503: it will be well again.
                if last is None or (isinstance(error, Refused) and error.status not in _PASSING):
                    raise
                typer.echo(f"penstock events: {error}", err=True)
            time.sleep(_AGAIN_S[min(lost, len(_AGAIN_S) - 1)])
            lost += 1


def line(kind: str, data: dict[str, Any]) -> str:
    """One event for people."""
    job, when = data.get("job", ""), at(data.get("at_s"))
    if kind == "decision":
        notes = "".join(f", {note}" for note in data["notes"])
        change = f"{data['requested']} -> {data['planned']}" if data["resized"] else f"{data['planned']}"
        return f"{when}  {job}  {change} workers: {data['reason']}{notes}  ({data['id']})"
    if kind == "trouble":
        return f"{when}  {job}  {'degraded: ' + data['trouble'] if data['trouble'] else 'recovered'}"
    if kind == "job":
        reason = f": {data['reason']}" if data.get("reason") else ""
        return f"{when}  {job}  {data['action']} by {data.get('by', '-')}{reason}"
    if kind == "tick":
        return f"{when}  {job}  {data.get('rate_per_s') or 0:,.0f}/s, lag {data.get('lag_s') or 0:.1f} s"
    return f"{kind}: {data.get('why', '')}"
