"""`penstock job safety`: what holds a pool, who stands by, and the trail of its resizes."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from services.cli.client import quoted
from services.cli.shown import SERVER, AsJson, CaFile, Server, asking_server, at, facts, show, table_of


def safety(
    name: Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")],
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many resizes to show at most.")] = 10,
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """What holds the pool, who stands by, and the latest resizes with what became of them."""
    with asking_server("job safety", server, ca_file) as client:
        path = f"/v1/jobs/{quoted(name)}"
        plan = client.get(f"{path}/plan").document
        workers = client.get(f"{path}/workers").document
        found = {
            "safety": client.get(f"{path}/safety").document,
            "standbys": {
                "wanted": plan["standbys"],
                "loaded": sum(worker["phase"] == "standby" for worker in workers),
                "numbers": {key: n for key, n in plan["numbers"].items() if key.startswith("standby_")},
            },
            "actuations": client.get(f"{path}/actuations?limit={limit}").document,
        }
        show(found, as_json, _shown)


def _shown(found: dict[str, Any]) -> Table:
    limits, bench = found["safety"], found["standbys"]
    numbers = "".join(f", {key} {n:,.4g}" for key, n in bench["numbers"].items() if n is not None)
    whole = Table.grid()
    head: dict[str, object] = {
        "resizes": f"{limits['resizes_hour']} in the last hour, {limits['resizes_day']} in the last day",
        "growing": _breaker(limits["breaker_up"]),
        "shrinking": _breaker(limits["breaker_down"]),
        "standbys": f"{bench['loaded']} loaded, {bench['wanted']} wanted{numbers}",
    }
    whole.add_row(facts(head))
    whole.add_row("")
    columns = ("asked (UTC)", "workers", "reason", "outcome", "times", "since (UTC)", "why", "decision")
    whole.add_row(table_of(columns, [_row(one) for one in found["actuations"]]))
    return whole


def _breaker(one: dict[str, Any]) -> str:
    """
    >>> _breaker({"phase": "open", "failures": 5, "until_s": 0.0, "why": "a quota"})
    'breaker open until 1970-01-01 00:00:00 after 5 failures: a quota'
    """
    until = "" if one["until_s"] is None else f" until {at(one['until_s'])}"
    failures = f" after {one['failures']} failures: {one['why']}" if one["failures"] else ""
    return f"breaker {one['phase']}{until}{failures}"


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    return (
        *(at(one["at_s"]), f"{one['before']} to {one['workers']}", one["reason"], one["outcome"]),
        *(one["times"], at(one["first_at_s"]), one["why"], one["decision_id"]),
    )
