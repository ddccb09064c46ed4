"""History outlives the meter: what was measured comes back as it was, gaps as gaps."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.control.errors import StateUnavailable
from services.meter.archive import Bins, HistoryArchive, HistoryKeeper, MemoryArchive
from services.meter.history import DAY_S, RateHistory, Resolution
from services.meter.redis_archive import RedisArchive, _decoded, _encoded
from services.settings.root import RedisSettings
from services.store.connect import connect
from services.store.keys import Keys

NOW_S = 1_794_820_000.0
LATER_S = NOW_S + 120.0
MINUTES = Resolution(60.0, 2 * DAY_S)
ODD_STEP = Resolution(300 / 144, 4000.0)


@pytest.fixture(params=["memory", "redis"])
async def archive(request: pytest.FixtureRequest) -> AsyncIterator[HistoryArchive]:
    if request.param == "memory":
        yield MemoryArchive()
        return
    client = connect(RedisSettings(url=request.getfixturevalue("redis_url")))
    yield RedisArchive(client, Keys("test"), "clicks")
    await client.aclose()


def filled(seed: int, *, seconds: int = 3000) -> RateHistory:
    """An hour of traffic, with gaps and with silence."""
    random = np.random.default_rng(seed)
    history = RateHistory(step_s=60.0)
    at_s = NOW_S - seconds
    while at_s < NOW_S:
        for_s = float(random.uniform(0.5, 5.0))
        if random.random() < 0.02:
            at_s += 90.0
            history.skip_to(at_s)
        history.add(at_s, at_s + for_s, float(random.choice([0, 0, 1])) * float(random.poisson(500 * for_s)))
        at_s += for_s
    return history


@pytest.mark.parametrize("seed", range(5))
async def test_a_restart_changes_nothing(archive: HistoryArchive, seed: int) -> None:
    before, after = filled(seed), RateHistory(step_s=60.0)

    await HistoryKeeper(before, archive).save(now_s=LATER_S)
    await HistoryKeeper(after, archive).restore(now_s=LATER_S)

    for step_s in before.grids:
        was, now = before.history(step_s), after.history(step_s)
        assert was.start_s == now.start_s
        known = np.flatnonzero(~np.isnan(was.rates))[-1] + 1
        assert np.array_equal(was.rates[:known], now.rates, equal_nan=True)


async def test_silence_is_not_a_gap(archive: HistoryArchive) -> None:
    first = int(NOW_S // 60) - 4
    rates = np.array([0.0, np.nan, 5.0], dtype=np.float32)

    await archive.save(MINUTES, first, rates)
    start, loaded = await archive.load(MINUTES, now_s=NOW_S)

    assert np.array_equal(loaded[first - start : first - start + 3], rates, equal_nan=True)
    assert np.isnan(loaded[: first - start]).all()


@pytest.mark.parametrize("resolution", [MINUTES, ODD_STEP, Resolution(1.0, 3600.0)])
async def test_bins_fall_into_their_places_across_the_edges_of_strings(
    archive: HistoryArchive, resolution: Resolution
) -> None:
    last = int(NOW_S // resolution.step_s)
    rates = np.arange(1, resolution.bins + 1, dtype=np.float32)

    await archive.save(resolution, last - resolution.bins, rates)
    first, loaded = await archive.load(resolution, now_s=NOW_S)

    assert first == last - resolution.bins
    assert np.array_equal(loaded, rates)


async def test_only_what_has_closed_since_is_written_again() -> None:
    written: list[tuple[float, int]] = []

    class Counting(MemoryArchive):
        async def save(self, resolution: Resolution, first_bin: int, rates: Bins) -> None:
            written.append((resolution.step_s, len(rates)))
            await super().save(resolution, first_bin, rates)

    history = RateHistory(step_s=10.0, resolutions=())
    keeper = HistoryKeeper(history, Counting())
    history.add(0.0, 100.0, 100)
    await keeper.save(now_s=100.0)
    history.add(100.0, 125.0, 25)
    await keeper.save(now_s=105.0)
    await keeper.save(now_s=125.0)

    assert written == [(10.0, 10), (10.0, 2)]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0.2, 40.0), st.integers(0, 5000)), min_size=2, max_size=80),
    st.data(),
)
async def test_a_restart_at_any_moment_costs_the_open_bins_and_nothing_else(
    polls: list[tuple[float, int]], data: st.DataObject
) -> None:
    stopped = data.draw(st.integers(1, len(polls) - 1))
    archive, steady, restarted = MemoryArchive(), RateHistory(step_s=60.0), RateHistory(step_s=60.0)
    at_s = stopped_at_s = NOW_S
    for number, (for_s, count) in enumerate(polls):
        if number == stopped:
            stopped_at_s = at_s
            await HistoryKeeper(restarted, archive).save(now_s=at_s)
            restarted = RateHistory(step_s=60.0)
            await HistoryKeeper(restarted, archive).restore(now_s=at_s)
        for history in (steady, restarted):
            history.add(at_s, at_s + for_s, count)
        at_s += for_s

    for step_s in steady.grids:
        open_bin = int(stopped_at_s // step_s)
        was, now = by_bin(steady, step_s), by_bin(restarted, step_s)
        assert {b: r for b, r in was.items() if b != open_bin} == {
            b: r for b, r in now.items() if b != open_bin
        }


def by_bin(history: RateHistory, step_s: float) -> dict[int, float]:
    """The known rates by the number of their bin."""
    past = history.history(step_s)
    first = round(past.start_s / step_s)
    return {first + n: float(rate) for n, rate in enumerate(past.rates) if not np.isnan(rate)}


async def test_an_archive_that_is_away_delays_and_loses_nothing() -> None:
    class Flaky(MemoryArchive):
        away = True

        async def load(self, resolution: Resolution, *, now_s: float) -> tuple[int, Bins]:
            if self.away:
                raise StateUnavailable("no Redis")
            return await super().load(resolution, now_s=now_s)

        async def save(self, resolution: Resolution, first_bin: int, rates: Bins) -> None:
            if self.away:
                raise StateUnavailable("no Redis")
            await super().save(resolution, first_bin, rates)

    archive = Flaky()
    history = filled(1)
    keeper = HistoryKeeper(history, archive)
    await keeper.restore(now_s=NOW_S)
    await keeper.save(now_s=NOW_S)
    archive.away = False
    await keeper.restore(now_s=LATER_S)
    await keeper.save(now_s=LATER_S)

    after = RateHistory(step_s=60.0)
    await HistoryKeeper(after, archive).restore(now_s=LATER_S)
    was, now = history.history(10.0).rates, after.history(10.0).rates
    assert np.array_equal(was[: len(now)], now, equal_nan=True)
    assert len(now) > 200


async def test_a_week_of_minutes_takes_as_little_memory_as_documented(redis_url: str) -> None:
    client = connect(RedisSettings(url=redis_url))
    try:
        archive = RedisArchive(client, Keys("test"), "clicks")
        week = Resolution(60.0, 7 * DAY_S)
        last = int(NOW_S // 60)
        for minute in range(last - week.bins, last, 10):  # as a meter would: little by little
            await archive.save(week, minute, np.full(10, 123.4, dtype=np.float32))

        used = [await client.memory_usage(key) for key in await client.keys("test:*")]
    finally:
        await client.aclose()

    assert sum(size or 0 for size in used) < 48_000, "docs/meter.md says 47 MB for a thousand topics"


async def test_history_expires_after_it_is_kept_for(redis_url: str) -> None:
    client = connect(RedisSettings(url=redis_url))
    try:
        await RedisArchive(client, Keys("test"), "clicks").save(
            MINUTES, int(NOW_S // 60), np.ones(3, dtype=np.float32)
        )
        [key] = await client.keys("test:*")
        assert 2 * DAY_S < await client.ttl(key) <= 3 * DAY_S
    finally:
        await client.aclose()


@settings(deadline=None)
@given(st.lists(st.one_of(st.just(np.nan), st.floats(0, 1e9, width=32)), max_size=50))
def test_bins_survive_their_encoding(rates: list[float]) -> None:
    bins = np.array(rates, dtype=np.float32)

    assert np.array_equal(_decoded(_encoded(bins))[: len(bins)], bins, equal_nan=True)
