"""Jobs that share GPUs: each has its wish while there is enough, and its share when there is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from estimator.fleet import Budget, Configuration, JobId, Standing
from forecasting.forecast import LEVELS, Forecast
from forecasting.history import TrafficHistory
from services.control.fleet_share import FleetShare, FleetTerms
from services.control.loop import JobLoop, Ports
from services.control.types import Mode, Override, PoolCapabilities, Reason, Victims
from tests.control.fakes import (
    FakeClock,
    FakeLeadership,
    FakeMeter,
    FakePool,
    FakeStore,
    NoTelemetry,
)
from tests.control.worlds import a_policy

TICK_S = 10.0


class Ahead:
    """A forecast of the same rate for ever, sure of itself; None is none at all."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.rate: float | None = None
        self.rises: tuple[float, float] | None = None
        """From when on, and to what."""

    def forecast(self, history: TrafficHistory) -> Forecast | None:
        del history
        if self.rate is None:
            return None
        paths = np.full((len(LEVELS), 60), self.rate)
        if self.rises is not None:
            at_s, rate = self.rises
            paths[:, self._clock.at_s + 60.0 * np.arange(60) >= at_s] = rate
        return Forecast(self._clock.at_s, 60.0, paths, "made-up")


class Fleet:
    """Jobs on fakes that share GPUs of one type."""

    def __init__(self, gpus: int, *standings: Standing, workers: int = 1) -> None:
        self.clock = FakeClock()
        self.leadership = FakeLeadership(1)
        self.share = FleetShare(FleetTerms(Budget.counted({"a100": gpus})), interval_s=TICK_S)
        self.meters = {standing.name: FakeMeter(self.clock) for standing in standings}
        self.pools = {standing.name: FakePool(workers) for standing in standings}
        self.ahead = {standing.name: Ahead(self.clock) for standing in standings}
        self.store = FakeStore()
        self.loops = {standing.name: self.loop(standing) for standing in standings}

    def loop(self, standing: Standing) -> JobLoop:
        ports = Ports(
            clock=self.clock,
            leadership=self.leadership,
            meter=self.meters[standing.name],
            forecasts=self.ahead[standing.name],
            pool=self.pools[standing.name],
            telemetry=NoTelemetry(),
            store=self.store,
            share=self.share,
        )
        policy = replace(a_policy(), standing=standing)
        return JobLoop(standing.name, policy, ports, tell=lambda _: None)

    async def ticks(self, count: int = 1) -> dict[str, int]:
        """What every job has asked for after so many rounds."""
        for _ in range(count):
            for loop in self.loops.values():
                tick = await loop.tick()
                assert tick.error is None
                used = sum(pool.requested for pool in self.pools.values())
                assert used <= self.share.terms.budget.gpus["a100"]
            self.clock.at_s += TICK_S
        return {name: pool.requested for name, pool in self.pools.items()}

    def wants(self, **rates: float) -> None:
        for name, rate in rates.items():
            self.meters[name].rate = rate

    def last(self, job: str) -> Reason:
        return next(decision.reason for decision in reversed(self.store.log) if decision.job == job)


async def test_while_there_is_enough_everybody_has_the_wish() -> None:
    fleet = Fleet(10, Standing("ads"), Standing("feed"))
    fleet.wants(ads=450, feed=350)

    assert await fleet.ticks(3) == {"ads": 5, "feed": 4}
    assert fleet.last("ads") is not Reason.FLEET_SHARE


async def test_when_there_is_not_each_has_its_share_and_is_told_why() -> None:
    fleet = Fleet(6, Standing("ads", weight=2.0), Standing("feed"))
    fleet.wants(ads=650, feed=650)

    assert await fleet.ticks(3) == {"ads": 4, "feed": 2}
    assert fleet.last("feed") is Reason.FLEET_SHARE
    assert fleet.store.log[-1].numbers["fleet_asked"] == 7.0


async def test_standbys_are_lent_before_anybody_goes_short() -> None:
    fleet = Fleet(8, Standing("ads"), Standing("feed"))
    fleet.loops["ads"].policy = replace(fleet.loops["ads"].policy, standbys=3)
    fleet.pools["ads"].able = PoolCapabilities(True, True, Victims.ANY, standbys=True)
    fleet.wants(ads=250, feed=150)
    assert await fleet.ticks(4) == {"ads": 6, "feed": 2}

    fleet.wants(feed=450)

    assert await fleet.ticks(3) == {"ads": 3, "feed": 5}  # both have all that they train with


async def test_a_job_grows_into_its_guarantee_as_the_others_shrink_and_never_are_there_too_many() -> None:
    fleet = Fleet(8, Standing("feed", guaranteed=5), Standing("ads", weight=9.0))
    fleet.ahead["feed"].rate = 50.0
    fleet.wants(ads=750, feed=50)
    assert await fleet.ticks(3) == {"feed": 1, "ads": 7}

    fleet.wants(feed=450)

    assert await fleet.ticks(3) == {"feed": 5, "ads": 3}


async def test_in_the_first_interval_nobody_grows_into_what_others_may_have() -> None:
    fleet = Fleet(8, Standing("ads"), Standing("feed"))
    fleet.pools["feed"].requested = 7
    fleet.wants(ads=650, feed=650)

    await fleet.loops["ads"].tick()

    assert fleet.pools["ads"].requested == 1


async def test_without_contention_nothing_is_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("shared although there is enough")

    monkeypatch.setattr("services.control.fleet_share.share", never)
    fleet = Fleet(10, Standing("ads"), Standing("feed"))
    fleet.wants(ads=450, feed=350)

    assert await fleet.ticks(3) == {"ads": 5, "feed": 4}


async def test_what_an_operator_sets_is_a_wish_too() -> None:
    fleet = Fleet(6, Standing("ads"), Standing("feed", guaranteed=4))
    fleet.loops["ads"].policy = replace(fleet.loops["ads"].policy, override=Override(6, 1e9))
    fleet.wants(feed=350)

    assert await fleet.ticks(3) == {"ads": 2, "feed": 4}


async def test_a_paused_job_keeps_what_it_has() -> None:
    fleet = Fleet(6, Standing("ads"), Standing("feed", weight=9.0), workers=3)
    fleet.loops["ads"].policy = replace(fleet.loops["ads"].policy, paused=True)
    fleet.wants(feed=650)

    assert await fleet.ticks(3) == {"ads": 3, "feed": 3}


async def test_a_job_that_only_recommends_takes_nothing_from_the_others() -> None:
    fleet = Fleet(6, Standing("ads"), Standing("feed"))
    fleet.pools["ads"].requested = 0
    fleet.loops["ads"].policy = replace(fleet.loops["ads"].policy, mode=Mode.RECOMMEND)
    fleet.wants(ads=650, feed=550)

    assert await fleet.ticks(3) == {"ads": 0, "feed": 6}


async def test_a_larger_fleet_counts_from_the_next_word_on() -> None:
    fleet = Fleet(4, Standing("ads"), Standing("feed"))
    fleet.wants(ads=450, feed=450)
    assert await fleet.ticks(3) == {"ads": 2, "feed": 2}

    fleet.share.terms = FleetTerms(Budget.counted({"a100": 10}))

    assert await fleet.ticks(2) == {"ads": 5, "feed": 5}


async def test_guarantees_beyond_the_fleet_hold_everybody_where_they_are() -> None:
    fleet = Fleet(4, Standing("ads", guaranteed=3), Standing("feed", guaranteed=3), workers=2)
    fleet.wants(ads=450, feed=450)

    assert await fleet.ticks(3) == {"ads": 2, "feed": 2}
    assert "6 of a100 against 4" in fleet.share.trouble


async def test_a_controller_that_lost_the_lead_forgets_what_it_was_told() -> None:
    fleet = Fleet(6, Standing("ads"), Standing("feed"))
    await fleet.ticks(2)
    assert fleet.share.held() == {
        JobId("", "ads"): Configuration("a100", 1),
        JobId("", "feed"): Configuration("a100", 1),
    }

    fleet.leadership.leads_with = None
    await fleet.ticks(1)

    assert fleet.share.held() == {}


async def test_a_deleted_jobs_gpus_are_free() -> None:
    fleet = Fleet(6, Standing("ads"), Standing("feed"))
    fleet.wants(ads=550, feed=550)
    await fleet.ticks(3)
    del fleet.loops["feed"], fleet.pools["feed"]
    fleet.share.keep(["ads"])

    assert await fleet.ticks(2) == {"ads": 6}


async def test_an_idle_guarantee_is_kept_free_where_no_forecast_says_that_it_can_be_lent() -> None:
    fleet = Fleet(8, Standing("ads", weight=9.0), Standing("feed", guaranteed=5))
    fleet.wants(ads=750, feed=50)

    assert await fleet.ticks(3) == {"ads": 3, "feed": 1}
    assert fleet.share.loans() == {JobId("", "feed"): 0}


async def test_what_is_lent_comes_back_when_the_forecast_rises_before_the_traffic_does() -> None:
    fleet = Fleet(8, Standing("ads", weight=9.0), Standing("feed", guaranteed=5))
    fleet.ahead["feed"].rate = 50.0
    fleet.wants(ads=750, feed=50)
    assert await fleet.ticks(3) == {"ads": 7, "feed": 1}

    fleet.ahead["feed"].rate = 290.0
    after = await fleet.ticks(2)

    assert fleet.share.loans() == {JobId("", "feed"): 2}
    assert after["ads"] == 5
