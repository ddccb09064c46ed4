"""The fleet file: read at start, read again when it changes, refused when it cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from estimator.fleet import InvalidFleet, Standing
from estimator.fleet.demand_ahead import DAY_S, demand_ahead
from forecasting.forecast import Forecast
from forecasting.history import TrafficHistory
from services.control.decide import decide
from services.control.errors import PoolUnavailable
from services.control.fleet_share import Grant
from services.control.types import ControlState
from services.controller.fleet_desk import FleetDesk
from services.settings import JobSettings, SettingsError
from services.settings.fleet import (
    FleetContents,
    FleetSettings,
    GpuTypeSettings,
    JobFleetSettings,
    NodeSettings,
)
from tests.control.worlds import a_policy, a_pool, an_observation

HOUR = 3600.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "fleet.yaml", "gpu_types: {a100: {gpus: 8}}")


def written(file: Path, text: str, *, at_s: float = 1.0) -> Path:
    file.write_text(text, encoding="utf-8")
    os.utime(file, (at_s, at_s))
    return file


def desk(file: Path) -> FleetDesk:
    return FleetDesk(FleetSettings(file=file), interval_s=5.0, status=lambda _: None)


def gpus(fleet: FleetDesk) -> dict[str, int]:
    assert fleet.share is not None
    return fleet.share.terms.budget.gpus


def test_a_file_that_changes_is_in_force_without_a_restart(file: Path) -> None:
    fleet = desk(file)
    assert gpus(fleet) == {"a100": 8}

    written(file, "gpu_types: {a100: {gpus: 16}, t4: {gpus: 4}}", at_s=2.0)
    fleet.refresh({})

    assert gpus(fleet) == {"a100": 16, "t4": 4}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gpu_types: {a100: {gpus: -1}}", "greater than or equal to 0"),
        ("gpu_types: [", "is not valid YAML"),
        ("gpu_types: {a100: {gpus: 2}}", "5 of a100 against 2"),
        ("", "against 0"),
    ],
)
def test_a_change_that_cannot_be_leaves_the_last_good_fleet_in_force_and_is_told(
    file: Path, text: str, why: str
) -> None:
    fleet = desk(file)
    jobs = {"ads": JobSettings(topic="ads", fleet=JobFleetSettings(guaranteed=5))}
    written(file, text, at_s=2.0)
    fleet.refresh(jobs)

    state = fleet.state()

    assert gpus(fleet) == {"a100": 8}
    assert state is not None
    assert "not in force" in state.trouble
    assert why in state.trouble

    written(file, "gpu_types: {a100: {gpus: 9}}", at_s=3.0)
    fleet.refresh(jobs)
    state = fleet.state()

    assert gpus(fleet) == {"a100": 9}
    assert state is not None
    assert state.trouble == ""


def test_a_file_that_vanishes_changes_nothing_and_is_told(file: Path) -> None:
    fleet = desk(file)
    file.unlink()
    fleet.refresh({})

    state = fleet.state()

    assert gpus(fleet) == {"a100": 8}
    assert state is not None
    assert "cannot be read" in state.trouble


def test_a_file_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        desk(tmp_path / "nowhere.yaml")
    with pytest.raises(SettingsError, match=r"gpu_types\.a100\.count"):
        desk(written(tmp_path / "fleet.yaml", "gpu_types: {a100: {count: 8}}"))


def test_without_a_fleet_nothing_is_shared_and_nothing_is_checked() -> None:
    none = FleetDesk(FleetSettings(), interval_s=5.0, status=lambda _: None)
    none.refresh({})
    none.check({"ads": JobSettings(topic="ads", fleet=JobFleetSettings(guaranteed=5))})

    assert none.share is None
    assert none.state() is None


def test_jobs_are_checked_together_and_those_that_only_recommend_are_promised_nothing(file: Path) -> None:
    wants = JobFleetSettings(guaranteed=5)
    acting = JobSettings(topic="ads", fleet=wants)
    advised = acting.model_copy(update={"pool": acting.pool.model_copy(update={"kind": "recommend"})})

    desk(file).check({"ads": acting, "feed": advised})
    with pytest.raises(InvalidFleet, match="10 of a100 against 8"):
        desk(file).check({"ads": acting, "feed": acting})


class Platform:
    """A cluster whose nodes come and go."""

    def __init__(self, **nodes: int) -> None:
        self.nodes = nodes
        self.lost: list[str] = []
        self.failure = ""

    async def find(self) -> FleetContents:
        if self.failure:
            raise PoolUnavailable(self.failure)
        there = {name: NodeSettings(gpu_type="a100", gpus=count) for name, count in self.nodes.items()}
        return FleetContents(nodes=there, lost=self.lost)


def following(platform: Platform) -> FleetDesk:
    settings = FleetSettings(gpu_types={"a100": GpuTypeSettings(price=3.0)})
    return FleetDesk(settings, interval_s=5.0, status=lambda _: None, find=platform.find)


async def test_nodes_are_read_from_the_platform_as_they_come_and_go() -> None:
    platform = Platform(one=4, two=4)
    fleet = following(platform)
    await fleet.look({})
    assert gpus(fleet) == {"a100": 8}

    platform.nodes = {"one": 4, "three": 8}
    platform.lost = ["one"]
    await fleet.look({})

    assert gpus(fleet) == {"a100": 8}
    assert fleet.share is not None
    assert fleet.share.terms.budget.declared == {"a100": 12}
    assert fleet.share.terms.budget.price("a100") == 3.0


async def test_a_node_that_vanished_is_lost_where_a_guarantee_rests_on_it() -> None:
    platform = Platform(one=4, two=4)
    fleet = following(platform)
    jobs = {"ads": JobSettings(topic="ads", fleet=JobFleetSettings(guaranteed=5))}
    await fleet.look(jobs)

    del platform.nodes["two"]
    await fleet.look(jobs)

    assert gpus(fleet) == {"a100": 4}
    assert fleet.share is not None
    assert fleet.share.terms.budget.lost == {"two"}
    assert fleet.share.trouble == ""


async def test_a_platform_that_does_not_answer_leaves_what_it_said_before_in_force() -> None:
    platform = Platform(one=4)
    fleet = following(platform)
    await fleet.look({})
    platform.failure = "nobody is there"
    await fleet.look({})

    state = fleet.state()

    assert gpus(fleet) == {"a100": 4}
    assert state is not None
    assert "nobody is there" in state.trouble


async def test_until_the_nodes_are_known_nobody_grows() -> None:
    fleet = following(Platform(one=4))
    assert fleet.share is not None
    decision = decide(an_observation(rate=450, pool=a_pool(2)), ControlState(planned=2), a_policy())

    before = fleet.share.grant(decision, Standing("clicks"), an_observation(), a_policy().slo)
    await fleet.look({})

    assert decision.planned > 2
    assert before == Grant(2)
    assert fleet.share.unknown == ""


def test_demand_ahead_is_the_forecast_then_the_same_day_of_last_week_then_yesterday() -> None:
    eight_days = TrafficHistory(start_s=0.0, step_s=HOUR, rates=np.arange(8 * 24.0))
    ahead = Forecast(8 * DAY_S, HOUR, np.array([[500.0, 600.0]]), "made-up", levels=(0.9,))
    demand = demand_ahead(eight_days, ahead, now_s=8 * DAY_S, steps=4, step_s=HOUR)

    assert demand == (500.0, 600.0, 26.0, 27.0)


def test_demand_ahead_of_a_young_job_repeats_its_day_or_what_came_lately() -> None:
    one_day = TrafficHistory(start_s=0.0, step_s=HOUR, rates=np.arange(24.0))
    young = TrafficHistory(start_s=0.0, step_s=HOUR, rates=np.array([7.0]))
    nothing = TrafficHistory(start_s=0.0, step_s=HOUR, rates=np.array([np.nan]))

    assert demand_ahead(one_day, None, now_s=DAY_S, steps=26, step_s=HOUR)[-3:] == (23.0, 0.0, 1.0)
    assert demand_ahead(young, None, now_s=HOUR, steps=2, step_s=HOUR) == (7.0, 7.0)
    assert demand_ahead(nothing, None, now_s=HOUR, steps=2, step_s=HOUR) == (0.0, 0.0)
