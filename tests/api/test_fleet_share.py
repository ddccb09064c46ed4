"""The fleet over REST: how its GPUs are shared, whether a job may come in, who suffers with fewer nodes."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from estimator.fleet.group_history import GroupPrior
from services.access.role import Role
from services.api.examples import ADMISSION
from services.controller.fleet_desk import FleetDesk
from services.controller.usher import Seated, Usher, Waiting, WaitReason
from services.settings.fleet import FleetSettings
from tests.api.sites import Rig


class FakeUsher(Usher):
    """One that has told all that it can."""

    def __init__(self) -> None:
        self.trouble = "pod clicks-x waits for its node: away"
        self.waiting = (
            Waiting("clicks-x", "clicks", 12.0, WaitReason.KEPT),
            Waiting("stranger", "", 1.0, WaitReason.FULL),
        )

    def seated(self) -> tuple[tuple[Seated, float], ...]:
        return ((Seated("clicks-y", "clicks", "a100-0", "packed", 0.0), 3.0),)


async def test_the_fleet_shows_what_each_job_asked_for_and_what_it_has(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()

    share = client.get("/v1/fleet").json()["share"]

    assert share["method"] == "wishes"
    assert [(kind["gpu_type"], kind["gpus"], kind["lost"]) for kind in share["types"]] == [("a100", 16, 0)]
    assert [(job["job"], job["asked"], job["binding"]) for job in share["jobs"]] == [("clicks", 5, "wish")]
    assert share["trouble"] == ""


async def test_a_token_for_one_job_sees_its_own_share_only_and_asks_nothing_of_all(rig: Rig) -> None:
    rig.controller.tick()
    client = rig.client(await rig.token(Role.ADMIN, jobs=("views",)))

    assert client.get("/v1/fleet").json()["share"]["jobs"] == []
    assert client.post("/v1/fleet/admission", json=ADMISSION).status_code == 403
    assert client.post("/v1/fleet/what-if", json={"nodes": ["a100-0"]}).status_code == 403


async def test_a_job_that_fits_may_come_in_and_one_that_does_not_is_told_why(
    client: TestClient, rig: Rig
) -> None:
    rig.controller.tick()

    fits = client.post("/v1/fleet/admission", json=ADMISSION).json()
    huge = client.post("/v1/fleet/admission", json={**ADMISSION, "guaranteed": 16}).json()

    assert fits["verdict"] == "accept"
    assert [outcome["hours"] for outcome in fits["outcomes"]] == [24, 168]
    assert fits["outcomes"][1]["bill_after"] > fits["outcomes"][1]["bill_before"] > 0
    assert [effect["job"] for effect in fits["outcomes"][0]["effects"]] == ["clicks"]
    assert huge["verdict"] == "refuse"
    assert "17 of a100 against 16" in huge["why"]


async def test_what_cannot_be_is_a_problem_and_not_an_error(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()

    twice = client.post("/v1/fleet/admission", json={**ADMISSION, "name": "clicks"})
    odd = client.post("/v1/fleet/admission", json={**ADMISSION, "gpus_per_worker": 0.3})
    nowhere = client.post("/v1/fleet/what-if", json={"nodes": ["n9"]})

    assert (twice.status_code, odd.status_code, nowhere.status_code) == (409, 409, 409)
    assert "no node 'n9'" in nowhere.json()["detail"]


async def test_fewer_nodes_tell_who_suffers(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()

    answer = client.post("/v1/fleet/what-if", json={"nodes": ["a100-0", "a100-1"]}).json()

    assert [(job["job"], job["workers_before"], job["workers_after"]) for job in answer["jobs"]] == [
        ("clicks", 5, 0)
    ]


async def test_another_number_of_gpus_tells_who_suffers_and_who_gains(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()

    fewer = client.post("/v1/fleet/what-if", json={"gpus": {"a100": 3}}).json()
    more = client.post("/v1/fleet/what-if", json={"gpus": {"a100": 40}}).json()
    unknown = client.post("/v1/fleet/what-if", json={"gpus": {"h100": 4}})
    nothing = client.post("/v1/fleet/what-if", json={})

    assert [(job["job"], job["workers_before"], job["workers_after"]) for job in fewer["jobs"]] == [
        ("clicks", 5, 3)
    ]
    assert fewer["gpus"] == {"a100": 3}
    assert fewer["shadow_prices"]["a100"] > 0
    assert (more["jobs"], more["gpus"]) == ([], {"a100": 40})
    assert (unknown.status_code, nothing.status_code) == (409, 422)
    assert "no GPU type 'h100'" in unknown.json()["detail"]


async def test_nodes_and_who_waits_for_one_are_shown_to_those_who_may_see_the_job(rig: Rig) -> None:
    rig.controller.tick()
    rig.controller.fleet.usher = usher = FakeUsher()
    everything = rig.client(await rig.token(Role.VIEWER))
    mine = rig.client(await rig.token(Role.VIEWER, jobs=("views",)))

    share = everything.get("/v1/fleet").json()["share"]

    assert [(node["node"], node["gpus"], node["lost"]) for node in share["nodes"]] == [
        ("a100-0", 8, False),
        ("a100-1", 8, False),
    ]
    assert [(one["pod"], one["why"], one["waits_s"]) for one in share["waiting"]] == [
        ("clicks-x", "kept", 12.0),
        ("stranger", "full", 1.0),
    ]
    assert [(one["pod"], one["node"], one["why"], one["ago_s"]) for one in share["seated"]] == [
        ("clicks-y", "a100-0", "packed", 3.0)
    ]
    assert share["trouble"] == usher.trouble
    limited = mine.get("/v1/fleet").json()["share"]
    assert (limited["waiting"], limited["seated"]) == ([], [])


async def test_all_that_is_in_the_way_is_told_at_once(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()
    fleet = rig.controller.fleet
    assert fleet.share is not None
    fleet.share.trouble, fleet.usher = "guarantees do not fit", FakeUsher()

    trouble = client.get("/v1/fleet").json()["share"]["trouble"]

    assert trouble == "guarantees do not fit; pod clicks-x waits for its node: away"


async def test_guarantees_and_what_is_lent_of_them_are_summed_by_type(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()

    (kind,) = client.get("/v1/fleet").json()["share"]["types"]

    assert kind["guaranteed"] == 1.0
    assert kind["lent"] == 0.0


async def test_without_a_fleet_there_is_nothing_to_ask(client: TestClient, rig: Rig) -> None:
    rig.controller.fleet = FleetDesk(FleetSettings(), interval_s=5.0, status=rig.controller.journal.status)

    assert client.get("/v1/fleet").json()["share"] is None
    assert client.post("/v1/fleet/admission", json=ADMISSION).status_code == 501
    assert client.post("/v1/fleet/what-if", json={"nodes": ["a100-0"]}).status_code == 501


async def test_a_job_whose_guarantee_does_not_fit_is_not_made(client: TestClient) -> None:
    job = {
        "id": "video",
        "topic": "video",
        "scaling": {"workers_max": 30},
        "fleet": {"guaranteed": 20},
    }
    refused = client.post("/v1/jobs", json=job)

    assert refused.status_code == 409
    assert "22 of a100 against 16" in refused.json()["detail"]


async def test_contention_is_told_as_it_is_forecast(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()

    answer = client.get("/v1/fleet/ahead").json()

    (kind,) = answer["types"]
    assert kind["gpu_type"] == "a100"
    assert len(kind["wished"]) == 24
    assert (kind["short_in_h"] is None) == (max(kind["wished"]) <= kind["gpus"])


async def test_gpus_that_the_batch_pool_has_are_shown(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()
    assert rig.controller.fleet.share is not None
    rig.controller.fleet.share.lend("a100", 3.0)

    (kind,) = client.get("/v1/fleet").json()["share"]["types"]

    assert kind["batch"] == 3.0


async def test_a_job_of_a_group_may_be_described_by_its_mean(
    client: TestClient, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.controller.tick()
    mean = {name: value for name, value in ADMISSION.items() if name != "hourly_per_s"}

    without = client.post("/v1/fleet/admission", json=mean)
    strangers = client.post("/v1/fleet/admission", json={**mean, "mean_per_s": 100.0, "group": "ctr"})
    prior = GroupPrior(0.01, 0.001, 1, (1.0,) * 24, jobs=1, spread=0.0)
    monkeypatch.setattr(rig.controller.fleet, "prior", lambda *_: prior)
    known = client.post("/v1/fleet/admission", json={**mean, "mean_per_s": 100.0, "group": "ctr"})

    assert (without.status_code, strangers.status_code, known.status_code) == (409, 409, 200)
    assert "nothing is known of group 'ctr'" in strangers.json()["detail"]
    assert known.json()["verdict"] == "accept"
