"""`penstock job safety`: what holds a pool, who stands by, and the trail of its resizes."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from services.cli.client import quoted
from services.cli.shown import (
    SERVER,
    AsJson,
    CaFile,
    Server,
    asking_server,
    at,
    facts,
    lately,
    show,
    table_of,
)


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
        "resizes": f"{_of(limits, 'hour')} in the last hour, {_of(limits, 'day')} in the last day",
        "one resize": f"{_step(limits['step_up_max'])} up, {_step(limits['step_down_max'])} down",
        "growing": _breaker(limits["breaker_up"]),
        "shrinking": _breaker(limits["breaker_down"]),
        "standbys": f"{bench['loaded']} loaded, {bench['wanted']} wanted{numbers}",
    }
    whole.add_row(facts(head))
    whole.add_row("")
    columns = ("asked (UTC)", "workers", "reason", "outcome", "decision", "why")
    whole.add_row(table_of(columns, [_row(one) for one in found["actuations"]]))
    return whole


def _of(limits: dict[str, Any], span: str) -> str:
    """
    >>> _of({"resizes_hour": 3, "resizes_per_hour": 360}, "hour")
    '3 of 360'
    """
    most = limits[f"resizes_per_{span}"]
    return f"{limits[f'resizes_{span}']}{'' if most is None else f' of {most}'}"


def _step(most: int | None) -> str:
    return "any step" if most is None else f"at most {most} workers"


def _breaker(one: dict[str, Any]) -> str:
    """
    >>> _breaker({"phase": "open", "failures": 5, "until_s": 0.0, "why": "a quota"})
    'breaker open until 1970-01-01 00:00:00 after 5 failures: a quota'
    """
    until = "" if one["until_s"] is None else f" until {at(one['until_s'])}"
    failures = f" after {one['failures']} failures: {one['why']}" if one["failures"] else ""
    return f"breaker {one['phase']}{until}{failures}"


def _row(one: dict[str, Any]) -> tuple[object, ...]:
    """
    >>> told = {"at_s": 1e9, "before": 2, "workers": 5, "reason": "catch_up", "outcome": "refused",
    ...         "times": 3, "first_at_s": 999999000.0, "why": "a quota", "decision_id": "clicks-7"}
    >>> _row(told)[1:4]
    ('2 to 5', 'catch_up', 'refused 3 times since 09-09 01:30:00')
    """
    often = f" {one['times']} times since {lately(one['first_at_s'])}" if one["times"] > 1 else ""
    return (
        *(lately(one["at_s"]), f"{one['before']} to {one['workers']}", one["reason"]),
        *(f"{one['outcome']}{often}", one["decision_id"], one["why"]),
    )
