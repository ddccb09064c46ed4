"""A fleet's settings: what is shared, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from estimator.fleet import Standing
from services.settings import JobSettings, Settings
from services.settings.fleet import FleetSettings

GPUS = {"a100": {"gpus": 12, "price": 2.5}}


def made(**content: Any) -> Settings:
    return Settings(**content)


def a_job(**content: Any) -> JobSettings:
    return JobSettings(topic="t", **content)


def job(**fleet: Any) -> dict[str, Any]:
    return {"topic": "clicks", "fleet": fleet}


def test_without_gpus_nothing_is_shared() -> None:
    assert Settings().fleet.terms() is None


def test_types_nodes_and_tenants_become_a_budget() -> None:
    fleet = made(
        fleet={
            "gpu_types": GPUS,
            "nodes": {"n1": {"gpu_type": "t4", "gpus": 4, "within": ["r1"]}},
            "lost": ["a100-1"],
            "tenants": {"ads": {"weight": 2}},
        }
    ).fleet
    terms = fleet.terms()

    assert terms is not None
    assert terms.budget.declared == {"t4": 4, "a100": 12}
    assert terms.budget.gpus == {"t4": 4, "a100": 8}
    assert terms.budget.price("a100") == 2.5
    assert terms.tenants.tenants[0].weight == 2.0


def test_guarantees_beyond_the_fleet_are_refused_with_their_sum() -> None:
    jobs = {"a": job(guaranteed=7), "b": {**job(guaranteed=8), "topic": "other"}}

    with pytest.raises(ValidationError, match="15 of a100 against 12"):
        made(fleet={"gpu_types": GPUS}, jobs=jobs)


@pytest.mark.parametrize(
    ("fleet", "wrong"),
    [
        ({"gpu_types": GPUS, "lost": ["n9"]}, "'n9', which is no node"),
        ({"gpu_types": GPUS, "file": "fleet.yaml"}, "both here and in `file`"),
        ({"tenants": {"ads": {"parent": "org"}}}, "'org'"),
        ({"nodes": {"n": {"gpu_type": "t4", "gpus": 4, "switch_gpus": 3}}}, "do not divide"),
        ({"gpu_types": {"a100": {"count": 3}}}, "Extra inputs"),
    ],
)
def test_a_fleet_that_cannot_be_is_refused(fleet: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValidationError, match=wrong):
        made(fleet=fleet)


def test_a_jobs_guarantee_is_its_fewest_workers_unless_it_says_more() -> None:
    plain = a_job(scaling={"workers_min": 2, "workers_max": 9, "gpus_per_worker": 1.5})

    assert plain.standing("clicks") == Standing("clicks", guaranteed=2, gpus_per_worker=2.0, workers_max=9)
    with pytest.raises(ValidationError, match="outside workers_min"):
        a_job(fleet={"guaranteed": 99})


def test_a_share_of_a_gpu_is_rounded_up_to_one_that_is_given_out() -> None:
    small = a_job(scaling={"gpus_per_worker": 0.3})

    assert small.standing("clicks").gpus_per_worker == 0.5


def typed(**pool: Any) -> JobSettings:
    return JobSettings.model_validate({"topic": "clicks", "pool": pool})


def test_a_pool_for_each_type_is_the_jobs_pool_with_what_differs() -> None:
    job = typed(
        kind="kubernetes",
        drain_s=70.0,
        by_gpu_type={"a100": {"kubernetes": {"name": "a"}}, "t4": {"kubernetes": {"name": "t"}}},
    )

    pool = job.pool.of_type("t4")

    assert (pool.kind, pool.kubernetes.name, pool.drain_s, pool.by_gpu_type) == ("kubernetes", "t", 70.0, {})
    assert job.standing("clicks").gpu_types == ("a100", "t4")


def test_what_is_null_of_a_types_pool_is_as_the_jobs_pool_says() -> None:
    nothing = {"command": None, "docker": None, "kubernetes": None, "ray": None}
    job = typed(kind="kubernetes", kubernetes={"name": "one"}, by_gpu_type={"t4": nothing})

    assert job.pool.of_type("t4") == job.pool.model_copy(update={"by_gpu_type": {}})


@pytest.mark.parametrize(
    ("pool", "why"),
    [
        ({"kind": "keda", "by_gpu_type": {"t4": {}}}, "pools that Penstock sizes"),
        ({"kind": "kubernetes", "by_gpu_type": {"t4": {}}}, "a kubernetes.name of its own"),
        (
            {
                "kind": "kubernetes",
                "by_gpu_type": {k: {"kubernetes": {"name": "one"}} for k in ("a100", "t4")},
            },
            "a kubernetes.name of its own",
        ),
    ],
)
def test_pools_that_cannot_be_told_apart_or_sized_are_refused(pool: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        typed(**pool)


def test_a_type_that_a_job_may_use_needs_a_pool() -> None:
    job = {
        "topic": "clicks",
        "pool": {"kind": "ray", "by_gpu_type": {"t4": {"ray": {"gpu_type": "T4"}}}},
        "fleet": {"gpu_types": ["t4", "a100"]},
    }

    with pytest.raises(ValidationError, match="has no pool for it"):
        JobSettings.model_validate(job)


def test_nodes_come_from_one_place() -> None:
    with pytest.raises(ValidationError, match="read from `platform`"):
        FleetSettings.model_validate({"gpu_types": {"a100": {"gpus": 4}}, "platform": {"kind": "ray"}})
    priced = FleetSettings.model_validate({"gpu_types": {"a100": {"price": 4}}, "platform": {"kind": "ray"}})
    assert priced.terms() is None


def test_a_batch_pool_needs_a_command_and_somebody_who_sizes_it() -> None:
    for pool, why in (({}, "pool.command"), ({"kind": "recommend"}, "sized by Penstock")):
        with pytest.raises(ValidationError, match=why):
            FleetSettings.model_validate({"batch": {"gpu_type": "a100", "pool": pool}})
