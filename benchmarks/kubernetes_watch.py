"""What a tick costs the controller when a Kubernetes pool has many pods: watched, and polled as its peer.

`python -m benchmarks.kubernetes_watch --pods 1000 --churn 20 --seconds 20`. The API server is the tests' own,
in a process apart; `churn` pods change each second. CPU counts all that this process does between two
ticks: events, decoding, and the look itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import ssl
import time
from collections.abc import Awaitable, Callable
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from services.actuator.kubernetes_access import Access, Token
from services.actuator.kubernetes_api import KubernetesApi
from services.actuator.kubernetes_place import KubernetesPlace
from services.actuator.kubernetes_pods import read_pod
from services.actuator.kubernetes_pool import KubernetesPool
from services.actuator.kubernetes_target import TargetSpec
from tests.actuator.clusters import workload
from tests.actuator.kubernetes_controllers import DEPLOYMENTS, NAMESPACE, PODS
from tests.actuator.kubernetes_server import ApiServer

RESULT = Path(__file__).parent / "results" / "kubernetes_watch.json"
TICK_S = 1.0


def main() -> None:
    """Measure both, print a table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--churn", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_serve, args=(theirs, options.pods, options.churn), daemon=True)
    server.start()
    try:
        figures = asyncio.run(_measure(ours.recv(), options))
    finally:
        server.terminate()
        server.join()
    RESULT.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    for name, value in figures.items():
        print(f"{name:24} {value:10.2f}")


def _serve(ready: Connection, pods: int, churn: int) -> None:
    asyncio.run(_api_server(ready, pods, churn))


async def _api_server(ready: Connection, pods: int, churn: int) -> None:
    server = ApiServer()
    server.store.put(DEPLOYMENTS, workload("ads", replicas=pods))
    for number in range(pods):
        server.store.put(PODS, _pod(number))
    server.store.events.clear()
    await server.start()
    ready.send(server.port)
    number = 0
    while True:
        await asyncio.sleep(1 / churn)
        pod = server.store.get(PODS, f"ads-{number % pods}")
        annotations = {"seen": str(number)}
        server.store.put(PODS, {**pod, "metadata": {**pod["metadata"], "annotations": annotations}})
        number += 1


def _pod(number: int) -> dict[str, Any]:
    """A ready pod of the size that an API server tells, some 6 kB."""
    env = [{"name": f"SETTING_{n}", "value": f"the value of setting {n} in this pod"} for n in range(40)]
    fields: dict[str, Any] = {f"f:field-{n}": {"f:nested": {}} for n in range(60)}
    return {
        "metadata": {
            "name": f"ads-{number}",
            "namespace": NAMESPACE,
            "labels": {"app": "ads"},
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}],
        },
        "spec": {"nodeName": f"gpu-{number % 125}", "containers": [{"name": "worker", "env": env}]},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")
            ],
            "containerStatuses": [{"name": "worker", "restartCount": 0, "state": {"running": {}}}],
        },
    }


async def _measure(port: int, options: argparse.Namespace) -> dict[str, float]:
    access = Access(
        f"http://127.0.0.1:{port}", NAMESPACE, ssl.create_default_context(), Token(lambda: ("", inf))
    )
    async with KubernetesPool("ads", KubernetesPlace(TargetSpec("ads"), lambda: access)) as pool:

        async def watched() -> int:
            return len((await pool.observe()).workers)

        watch_ms = await _cpu_per_tick_ms(watched, options)
    api = KubernetesApi(access)

    async def polled() -> int:
        found, _ = await api.list(PODS, {"labelSelector": "app=ads"})
        return len([read_pod(pod) for pod in found])

    poll_ms = await _cpu_per_tick_ms(polled, options)
    await api.close()
    return {
        "pods": options.pods,
        "churn_per_s": options.churn,
        "watch_tick_cpu_ms": round(watch_ms, 3),
        "poll_tick_cpu_ms": round(poll_ms, 3),
        "poll_over_watch": round(poll_ms / watch_ms, 1),
    }


async def _cpu_per_tick_ms(look: Callable[[], Awaitable[int]], options: argparse.Namespace) -> float:
    ticks = int(options.seconds / TICK_S)
    began_s = time.process_time()
    for _ in range(ticks):
        seen = await look()
        assert seen == options.pods, f"{seen} of {options.pods} pods were seen"
        await asyncio.sleep(TICK_S)
    return (time.process_time() - began_s) / ticks * 1000


if __name__ == "__main__":
    main()
