"""The manifests on a real control plane; a controller has exactly their rights (`make test-kubernetes`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.embedded.ports import free_ports
from tests.actuator.control_plane import lacking
from tests.deploy.cluster import Cluster
from tests.deploy.manifests import BASE, LAYERS
from tests.servers.kafka import KafkaUnderTest
from tests.waiting import eventually

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]

if lacking():
    pytest.skip(lacking(), allow_module_level=True)

TOKEN = "a-token-of-more-than-twenty-characters"  # noqa: S105 - of this test alone


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    made.run("create", "namespace", made.namespace)
    yield made
    made.run("delete", "namespace", made.namespace, "--wait=false")
    made.run("delete", "persistentvolume", "--selector", f"of={made.namespace}", "--wait=false")


@pytest.fixture
def deployed(cluster: Cluster) -> Cluster:
    cluster.make_secret()
    cluster.apply(BASE)
    return cluster


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_the_api_server_takes_the_manifests(cluster: Cluster, layer: Path) -> None:
    applied = cluster.apply(layer, "--dry-run=server")

    assert "deployment.apps/penstock serverside-applied" in applied


def test_both_controllers_and_the_first_worker_come_up(deployed: Cluster) -> None:
    def up(name: str, replicas: int) -> bool:
        return bool(deployed.get(f"deployment/{name}")["status"].get("readyReplicas") == replicas)

    eventually(lambda: up("penstock", 2), within_s=90, every_s=0.5, what="two controllers")
    eventually(lambda: up("clicks", 1), within_s=90, every_s=0.5, what="one worker")
    budget = deployed.get("poddisruptionbudget/penstock")
    eventually(lambda: deployed.get("pdb/penstock")["status"].get("disruptionsAllowed") == 1, within_s=60)
    assert budget["spec"]["minAvailable"] == 1


def test_both_shards_come_up_on_volumes_of_their_own_and_are_taken_away_one_at_a_time(
    cluster: Cluster,
) -> None:
    cluster.make_secret()
    for number in range(2):
        cluster.make_claim(f"parameters-clicks-shards-{number}")
    cluster.apply(BASE)

    def ready() -> bool:
        return bool(cluster.get("statefulset/clicks-shards")["status"].get("readyReplicas") == 2)

    eventually(ready, within_s=90, every_s=0.5, what="two shards")
    for number in range(2):
        pod = cluster.get(f"pod/clicks-shards-{number}")
        assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == str(number)
    eventually(lambda: cluster.get("pdb/clicks-shards")["status"].get("disruptionsAllowed") == 1, within_s=60)


def test_applying_again_does_not_reset_the_number_of_workers(deployed: Cluster) -> None:
    deployed.run("scale", "deployment/clicks", "--replicas=3")

    deployed.apply(BASE)

    assert deployed.get("deployment/clicks")["spec"]["replicas"] == 3


def test_the_controller_may_size_its_workers_and_nothing_else(deployed: Cluster) -> None:
    assert deployed.may("update", "deployments.apps/clicks", "--subresource=scale")
    assert deployed.may("patch", "deployments.apps/clicks")
    for verb, resource in (
        ("patch", "deployments.apps/penstock"),
        ("delete", "deployments.apps/clicks"),
        ("create", "pods"),
        ("delete", "pods"),
        ("get", "secrets"),
        ("list", "nodes"),
    ):
        assert not deployed.may(verb, resource), (verb, resource)


@pytest.fixture
def controller(deployed: Cluster, kafka: KafkaUnderTest, redis_url: str, tmp_path: Path) -> Iterator[str]:
    """`penstock serve` with the manifest's settings and service account; the address of its API."""
    port, operations = free_ports(2)
    (tmp_path / "token").write_text(TOKEN, encoding="utf-8")
    env = {
        "PENSTOCK_KAFKA__BOOTSTRAP": kafka.bootstrap,
        "PENSTOCK_REDIS__URL": redis_url,
        "PENSTOCK_API__HOST": "127.0.0.1",
        "PENSTOCK_API__PORT": str(port),
        "PENSTOCK_API__OPERATIONS_HOST": "127.0.0.1",
        "PENSTOCK_API__OPERATIONS_PORT": str(operations),
        "PENSTOCK_API__ADMIN_TOKEN_FILE": str(tmp_path / "token"),
        "PENSTOCK_CONTROLLER__TICK_S": "1",
        "PENSTOCK_CONTROLLER__MODELS_DIR": str(tmp_path / "models"),
        "PENSTOCK_JOBS__CLICKS__TOPIC": kafka.new_topic(partitions=4),
        "PENSTOCK_JOBS__CLICKS__POOL__KUBERNETES__KUBECONFIG": str(
            deployed.kubeconfig_of_the_controller(tmp_path / "kubeconfig")
        ),
    }
    log = (tmp_path / "serve.log").open("wb")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "services.cli.main", "serve", "--config", str(BASE / "penstock.yaml")],
        env={**kept, **env},
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    log.close()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def override(address: str, workers: int) -> bool:
    """Ask for a size by hand, as the page does; false while nobody listens."""
    request = urllib.request.Request(
        f"{address}/v1/jobs/clicks/override",
        data=json.dumps({"workers": workers, "lasting_s": 600, "reason": "a test"}).encode(),
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_the_controller_scales_the_workers_with_the_manifests_rights(
    deployed: Cluster, controller: str
) -> None:
    def ready() -> int:
        return int(deployed.get("deployment/clicks")["status"].get("readyReplicas", 0))

    eventually(lambda: override(controller, 5), within_s=90, every_s=0.5, what="the API")
    eventually(lambda: ready() == 5, within_s=90, every_s=0.5, what="five workers")
    assert override(controller, 2)
    eventually(lambda: ready() == 2, within_s=90, every_s=0.5, what="two workers")

    assert "penstock/fence" in deployed.get("deployment/clicks")["metadata"]["annotations"]
