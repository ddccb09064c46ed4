"""The Kubernetes manifests, without a cluster: schemas, rights, and what they promise each other."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from tests.deploy.manifests import (
    BASE,
    KUBERNETES,
    LAYERS,
    OWN_KINDS,
    containers,
    rendered,
    settings_of,
    the,
    variables,
    written,
)
from tests.deploy.queries import RULES

VERSION = "1.34"


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_what_kustomize_renders_fits_the_schemas(layer: Path) -> None:
    manifests = rendered(layer)

    assert {"Deployment", "Role", "NetworkPolicy", "PodDisruptionBudget"} <= {
        one["kind"] for one in manifests
    }
    for one in manifests:
        assert one["metadata"]["namespace"] == "penstock"
        if not one["apiVersion"].startswith(OWN_KINDS):
            kubernetes_validate.validate(one, VERSION, strict=True)


@pytest.mark.parametrize(
    "path",
    [
        BASE / name
        for name in ("controller.yaml", "rbac.yaml", "workers.yaml", "shards.yaml", "networkpolicy.yaml")
    ]
    + [KUBERNETES / "overlays" / "statefulset" / "workers.yaml"]
    + [KUBERNETES / "pool-rbac.yaml", KUBERNETES / "fleet-rbac.yaml"],
    ids=lambda path: path.name,
)
def test_every_file_fits_the_schemas(path: Path) -> None:
    for document in written(path):
        kubernetes_validate.validate(document, VERSION, strict=True)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_a_kustomization_names_files_that_are_there(layer: Path) -> None:
    (kustomization,) = written(layer / "kustomization.yaml")
    generated = [file for made in kustomization.get("configMapGenerator", []) for file in made["files"]]
    patched = [patch["path"] for patch in kustomization.get("patches", []) if "path" in patch]

    for name in (*kustomization["resources"], *generated, *patched):
        assert (layer / name).exists(), name


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_the_settings_are_valid_and_name_what_is_rendered(layer: Path) -> None:
    pool = settings_of(layer).jobs["clicks"].pool
    sized = the(rendered(layer), pool.kubernetes.kind, pool.kubernetes.name)

    assert pool.kind == ("keda" if layer.name == "keda" else "kubernetes")
    assert sized["apiVersion"] == pool.kubernetes.api_version


def test_the_base_has_exactly_the_rights_of_a_pool() -> None:
    text = (KUBERNETES / "pool-rbac.yaml").read_text(encoding="utf-8")
    pool = the(list(yaml.safe_load_all(text.replace("ads", "clicks"))), "Role", "penstock-pool-clicks")

    assert the(list(written(BASE / "rbac.yaml")), "Role", "penstock-pool-clicks")["rules"] == pool["rules"]


def test_the_operators_rules_are_the_rules_that_are_tested() -> None:
    (rule,) = written(KUBERNETES / "overlays" / "monitoring" / "prometheusrule.yaml")

    assert rule["spec"] == yaml.safe_load(RULES.read_text(encoding="utf-8"))


def test_nothing_runs_as_root_or_writes_to_its_image() -> None:
    names = ("controller.yaml", "workers.yaml", "shards.yaml")
    manifests = [one for name in names for one in written(BASE / name)]

    assert len(containers(manifests)) == 3
    for container in containers(manifests):
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"]
        assert not security["allowPrivilegeEscalation"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]
    for one in manifests:
        if one["kind"] in ("Deployment", "StatefulSet"):
            pod = one["spec"]["template"]["spec"]
            assert pod["securityContext"]["runAsNonRoot"]
            # A Service named penstock would give every pod PENSTOCK_… variables that are no settings.
            assert pod["enableServiceLinks"] is False


def test_a_worker_is_the_same_pod_in_a_deployment_and_in_a_stateful_set() -> None:
    deployment = next(written(BASE / "workers.yaml"))
    stateful = next(written(KUBERNETES / "overlays" / "statefulset" / "workers.yaml"))

    assert deployment["spec"]["template"] == stateful["spec"]["template"]


def test_the_pods_of_a_ray_cluster_reach_one_another() -> None:
    """Its workers are under the policy of all workers, which lets nobody in."""
    manifests = rendered(KUBERNETES / "overlays" / "ray")
    policy = the(manifests, "NetworkPolicy", "penstock-workers")["spec"]
    (group,) = the(manifests, "RayCluster", "clicks")["spec"]["workerGroupSpecs"]
    others = [{"podSelector": {"matchLabels": {"ray.io/cluster": "clicks"}}}]

    assert policy["podSelector"]["matchLabels"].items() <= group["template"]["metadata"]["labels"].items()
    assert {"from": others} in policy["ingress"]
    assert {"to": others} in policy["egress"]


@pytest.mark.parametrize(
    "path", [BASE / "workers.yaml", KUBERNETES / "overlays" / "statefulset" / "workers.yaml"]
)
def test_workers_have_a_gpu_time_to_drain_and_no_number(path: Path) -> None:
    workers = next(written(path))["spec"]
    drain_s = settings_of(BASE).jobs["clicks"].pool.drain_s

    assert "replicas" not in workers, "applying it again would reset what Penstock set"
    (container,) = workers["template"]["spec"]["containers"]
    told_s = float(variables(container)["PENSTOCK_DRAIN_S"])
    assert workers["template"]["spec"]["terminationGracePeriodSeconds"] > drain_s == told_s
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert workers.get("podManagementPolicy", "Parallel") == "Parallel"


def test_there_are_as_many_shards_as_the_job_has_and_a_snapshot_has_somewhere_to_lie() -> None:
    wanted = settings_of(BASE).jobs["clicks"].parameters
    shards = next(written(BASE / "shards.yaml"))["spec"]
    (container,) = shards["template"]["spec"]["containers"]
    claim = shards["volumeClaimTemplates"][0]["metadata"]["name"]
    (kept,) = (mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == claim)

    assert shards["replicas"] == wanted.shards
    assert wanted.directory.is_relative_to(kept)


@pytest.mark.parametrize(
    "path", [BASE / "workers.yaml", KUBERNETES / "overlays" / "statefulset" / "workers.yaml"]
)
def test_workers_learn_with_the_shards_that_there_are(path: Path) -> None:
    job = settings_of(BASE).jobs["clicks"]
    (container,) = containers([next(written(path))])
    told = variables(container)

    assert told["PENSTOCK_JOBS__CLICKS__WORKER__DEVICE"] == job.worker.device
    assert told["PENSTOCK_JOBS__CLICKS__PARAMETERS__SHARDS"] == str(job.parameters.shards)


def test_workers_and_shards_and_nobody_else_reach_the_shards() -> None:
    policy = the(list(written(BASE / "shards.yaml")), "NetworkPolicy", "penstock-shards")["spec"]
    out = the(list(written(BASE / "networkpolicy.yaml")), "NetworkPolicy", "penstock-workers")["spec"]
    (container,) = containers(list(written(BASE / "shards.yaml")))
    (port,) = container["ports"]

    def pods(component: str) -> dict[str, object]:
        return {"podSelector": {"matchLabels": {"app.kubernetes.io/component": component}}}

    to_shards = {"ports": [{"port": port["containerPort"]}], "to": [pods("shard")]}
    assert policy["ingress"] == [{"ports": [{"port": port["name"]}], "from": [pods("worker"), pods("shard")]}]
    assert out["egress"][-1] == policy["egress"][-1] == to_shards
