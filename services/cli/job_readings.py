"""`penstock job plan` and `forecast`: what was decided and why, and what is coming."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from services.cli.job_shown import Name, job_path
from services.cli.shown import (
    SERVER,
    AsJson,
    CaFile,
    Server,
    asking_server,
    at,
    facts,
    lately,
    share,
    show,
    table_of,
)


def plan(name: Name, server: Server = SERVER, ca_file: CaFile = None, as_json: AsJson = False) -> None:
    """The plan in force, why, what binds it, and what other sizes would mean."""
    with asking_server("job plan", server, ca_file) as client:
        show(client.get(job_path(name, "/plan")).document, as_json, _plan)


def _plan(d: dict[str, Any]) -> Table:
    whole = Table.grid()
    numbers = ", ".join(f"{key} {value:,.4g}" for key, value in d["numbers"].items() if value is not None)
    head = {
        "workers": f"{d['planned']} planned, {d['requested']} requested before, {d['ready']} ready",
        "reason": d["reason"],
        "why": " ".join([d["why"], *d["notes_in_words"]]),
        "binding": d["binding"],
        "forecast": _forecast_used(d["forecast"]),
        "would change it": " ".join(d["would_change"]),
        "numbers": numbers,
        "decision": f"{d['id']} at {at(d['at_s'])}",
    }
    whole.add_row(facts(head))
    rows = [
        (
            f"{o['workers']}{' *' if o['workers'] == d['planned'] else ''}",
            *(o["capacity_per_s"], share(o["utilisation_now"]), share(o["utilisation_peak"])),
            "grows" if o["drain_s"] is None else o["drain_s"],
        )
        for o in d["alternatives"]
    ]
    whole.add_row("")
    whole.add_row(table_of(("workers", "can train/s", "load now", "load at peak", "backlog gone in s"), rows))
    if d["candidates"]:
        weighed = [
            (c["size"], c["workers"], c["cost_worker_s"], share(c["late_share"])) for c in d["candidates"]
        ]
        whole.add_row("")
        whole.add_row(table_of(("weighed", "workers", "cost in worker-s", "late"), weighed))
    return whole


def _forecast_used(forecast: dict[str, Any] | None) -> str:
    if forecast is None:
        return "none"
    scored = "" if forecast["score"] is None else f", score {forecast['score']:.3g}"
    kept = "" if forecast["heeded"] else ", too far off lately to be heeded"
    return f"{forecast['model']} of {at(forecast['issued_at_s'])}{scored}{kept}"


def forecast(name: Name, server: Server = SERVER, ca_file: CaFile = None, as_json: AsJson = False) -> None:
    """The traffic that is forecast, and how good the forecast has been."""
    with asking_server("job forecast", server, ca_file) as client:
        show(client.get(job_path(name, "/forecast")).document, as_json, _forecast)


def _forecast(d: dict[str, Any]) -> Table:
    levels = sorted(d["paths"], key=float)
    steps = len(d["paths"][levels[0]])
    every = max(1, steps // 20)
    rows = [
        (lately(d["issued_at_s"] + (i + 0.5) * d["step_s"]), *(d["paths"][level][i] for level in levels))
        for i in range(0, steps, every)
    ]
    whole = Table.grid()
    training = d["training"] or {}
    head = {
        "model": d["model"],
        "score": d["score"],
        "version": training.get("version"),
        "rolled back": training.get("rolled_back"),
        "trouble": d["trouble"],
    }
    whole.add_row(facts({name: value for name, value in head.items() if value is not None and value != ""}))
    whole.add_row("")
    whole.add_row(
        table_of(("samples/s at (UTC)", *(f"{float(level):.0%}" for level in levels)), rows),
    )
    if d["scores"]:
        whole.add_row("")
        scored = [(one["model"], share(one["loss"]), share(one["weight"])) for one in d["scores"]]
        whole.add_row(table_of(("model", "error", "weight"), scored))
    return whole
