"""From which nodes workers should leave: whole GPUs stay packed together, parts of them spread (PAI).

Where workers come is for the platform's scheduler to say; where they go from is for us, and in a pool that
breathes every few minutes that shapes the nodes as much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from estimator.fleet.standing import Standing


def leaving_order(
    job: Standing, workers: Sequence[tuple[str, str]], gpus: Mapping[str, int], taken: Mapping[str, float]
) -> tuple[str, ...]:
    """The job's workers, each with its node, in the order in which they should leave.

    `gpus` are those of each node, and `taken` how many of them are in use, by whatever job. Reserve and pack:
    workers of whole GPUs leave the emptiest node first, so that whole nodes come free for whoever needs them.
    Parts of a GPU leave the fullest, where they have most company. On one node, in the order given.

    >>> at = [("w0", "n1"), ("w1", "n2"), ("w2", "n1"), ("w3", "n2")]
    >>> leaving_order(Standing("ads"), at, {"n1": 8, "n2": 8}, {"n1": 6.0, "n2": 2.0})
    ('w1', 'w3', 'w0', 'w2')
    >>> leaving_order(Standing("ads", gpus_per_worker=0.5), at, {"n1": 8, "n2": 8}, {"n1": 3.0, "n2": 2.0})
    ('w0', 'w2', 'w1', 'w3')
    """
    packs = job.gpus_per_worker >= 1
    left: dict[str, list[str]] = {}
    for worker, node in workers:
        left.setdefault(node, []).append(worker)
    used = {node: taken.get(node, 0.0) for node in left}
    order: list[str] = []
    while left:
        filled = {node: used[node] / gpus[node] for node in left}
        node = min(left, key=lambda node: (filled[node] if packs else -filled[node], node))
        order.append(left[node].pop(0))
        used[node] -= job.gpus_per_worker
        if not left[node]:
            del left[node]
    return tuple(order)
