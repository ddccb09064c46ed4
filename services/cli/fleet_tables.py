"""What `penstock fleet` shows, as tables."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from services.cli.shown import share, table_of


def types(document: dict[str, Any]) -> Table:
    """GPU types, what there is of them and who has it."""
    columns = (
        *("GPU type", "there", "lost", "wished", "held", "guaranteed", "lent", "batch", "contended"),
        "one more is worth",
    )
    return table_of(
        columns,
        [
            (
                *(t["gpu_type"], t["gpus"], t["lost"], t["wished"], t["held"], t["guaranteed"], t["lent"]),
                *(t["batch"], t["contended"], t["shadow_price"]),
            )
            for t in document["types"]
        ],
    )


def jobs(document: dict[str, Any]) -> Table:
    """What each job asked for, what it has, and what bound it."""
    columns = (
        *(
            "job",
            "tenant",
            "GPU type",
            "asked",
            "share",
            "held",
            "guaranteed",
            "lent",
            "satisfied",
            "bound by",
        ),
        *("one more GPU", "worker"),
    )
    return table_of(
        columns,
        [
            (
                *(j["job"], j["tenant"], j["gpu_type"], j["asked"], j["share"], j["held"], j["guaranteed"]),
                *(_lent(j), share(j["satisfaction"]), j["binding"], _worth(j["worth"]), _advice(j["worker"])),
            )
            for j in document["jobs"]
        ],
    )


def _lent(job: dict[str, Any]) -> str:
    """Workers of the guarantee that others may have, and standbys.

    >>> _lent({"lent": 2, "standbys_lent": 1}), _lent({"lent": 2, "standbys_lent": 0})
    ('2 + 1 standby', '2')
    """
    standbys = job["standbys_lent"]
    return f"{job['lent']} + {standbys} standby" if standbys else str(job["lent"])


def _worth(worth: dict[str, float]) -> str:
    """What one more GPU of each type would add to the satisfaction, those that add something.

    >>> _worth({"a100": 0.125, "t4": 0.0}), _worth({})
    ('a100 +12.50 %', '-')
    """
    return ", ".join(f"{kind} +{share(added)}" for kind, added in worth.items() if added > 0) or "-"


def nodes(document: dict[str, Any]) -> Table:
    """Machines with somebody on them, and those that are lost."""
    return table_of(
        ("node", "GPU type", "within", "taken", "workers"),
        [
            (
                *(n["node"], n["gpu_type"], "/".join(n["within"]) or "-"),
                "lost" if n["lost"] else f"{n['taken']:g} of {n['gpus']}",
                _on_node(n),
            )
            for n in document["nodes"]
            if n["lost"] or _on_node(n) != "-"
        ],
    )


def _on_node(node: dict[str, Any]) -> str:
    """Whose workers are there.

    >>> _on_node({"jobs": {"ads": 3}, "batch": 1})
    'ads 3, batch 1'
    """
    counts = {**node["jobs"], **({"batch": node["batch"]} if node["batch"] else {})}
    return ", ".join(f"{job} {count}" for job, count in counts.items()) or "-"


def waiting_for_nodes(document: dict[str, Any]) -> Table:
    """Who waits at the gate, and why."""
    return table_of(
        ("waits for a node", "job", "seconds", "why"),
        [
            (w["pod"], w["job"] or "-", round(w["waits_s"]), w["why"].replace("_", " "))
            for w in document["waiting"]
        ],
    )


def _advice(worker: dict[str, Any] | None) -> str:
    """What to change of a worker; nothing where it is right or nobody can tell.

    >>> _advice({"advice": "add_cores", "gpu_share": 1.0, "cores": 6})
    'add cores: 6 cores, 1 GPU'
    """
    if worker is None or worker["advice"] == "right":
        return "-"
    words = worker["advice"].replace("_", " ")
    return f"{words}: {worker['cores']} cores, {worker['gpu_share']:g} GPU"


def outcomes(document: dict[str, Any]) -> Table:
    """What accepting a job does, by horizon."""
    rows = []
    for outcome in document["outcomes"]:
        worst = outcome["effects"][0] if outcome["effects"] else None
        harmed = (
            "-"
            if worst is None
            else f"{worst['job']} {share(worst['late_share_before'])} to {share(worst['late_share_after'])}"
        )
        rows.append(
            (
                *(outcome["hours"], share(outcome["late_share"]), harmed),
                *(outcome["bill_before"], outcome["bill_after"]),
            )
        )
    return table_of(("hours", "late itself", "most harmed", "bill now", "bill with it"), rows)


def hours_ahead(document: dict[str, Any]) -> Table:
    """When there will be too few GPUs."""
    return table_of(
        ("GPU type", "there", "wished now", "most wished", "short in hours"),
        [
            (
                *(t["gpu_type"], t["gpus"], t["wished"][0], max(t["wished"])),
                "-" if t["short_in_h"] is None else t["short_in_h"],
            )
            for t in document["types"]
        ],
    )


def sufferers(document: dict[str, Any]) -> Table:
    """For whom another budget changes something."""
    return table_of(
        ("job", "workers", "then", "satisfied", "then"),
        [
            (
                *(j["job"], j["workers_before"], j["workers_after"]),
                *(share(j["satisfaction_before"]), share(j["satisfaction_after"])),
            )
            for j in document["jobs"]
        ],
    )
