"""A pool for each GPU type, as one."""

from __future__ import annotations

import pytest

from services.actuator.memory_pool import MemoryPool
from services.actuator.typed_pool import TypedPool
from services.control.errors import Fenced, Rejected
from services.control.types import PoolResize, Victims
from tests.control.fakes import FakeClock


def pools() -> tuple[FakeClock, TypedPool]:
    clock = FakeClock()
    return clock, TypedPool({kind: MemoryPool(clock, names=kind) for kind in ("a100", "t4")})


async def test_workers_are_of_their_pools_type_and_no_two_have_one_name() -> None:
    _, pool = pools()
    await pool.resize(PoolResize(2, "ads-1", fence=1, gpu_type="a100"))
    await pool.resize(PoolResize(1, "ads-2", fence=1, gpu_type="t4"))

    state = await pool.observe()

    assert state.requested == 3
    assert state.by_type == {"a100": 2, "t4": 1}
    assert sorted((worker.id, worker.gpu_type) for worker in state.workers) == [
        ("a100-1", "a100"),
        ("a100-2", "a100"),
        ("t4-1", "t4"),
    ]


async def test_the_other_types_are_emptied_when_the_resize_says_so_and_not_before() -> None:
    _, pool = pools()
    await pool.resize(PoolResize(2, "ads-1", fence=1, gpu_type="a100"))
    await pool.resize(PoolResize(3, "ads-2", fence=1, gpu_type="t4"))
    assert (await pool.observe()).by_type == {"a100": 2, "t4": 3}

    await pool.resize(PoolResize(3, "ads-3", fence=1, gpu_type="t4", release=True))

    assert (await pool.observe()).by_type == {"a100": 0, "t4": 3}


async def test_a_job_that_is_deleted_leaves_every_type() -> None:
    _, pool = pools()
    await pool.resize(PoolResize(2, "ads-1", fence=1, gpu_type="a100"))
    await pool.resize(PoolResize(3, "ads-2", fence=1, gpu_type="t4"))

    await pool.resize(PoolResize(0, "ads-deleted", fence=2))

    assert (await pool.observe()).requested == 0


@pytest.mark.parametrize("gpu_type", ["", "h100"])
async def test_workers_of_no_type_or_of_one_without_a_pool_are_refused(gpu_type: str) -> None:
    _, pool = pools()

    with pytest.raises(Rejected):
        await pool.resize(PoolResize(2, "ads-1", fence=1, gpu_type=gpu_type))


async def test_an_older_controller_is_fenced_off() -> None:
    _, pool = pools()
    await pool.resize(PoolResize(2, "ads-1", fence=5, gpu_type="a100"))

    with pytest.raises(Fenced):
        await pool.resize(PoolResize(1, "ads-2", fence=4, gpu_type="a100"))


def test_it_can_do_what_all_of_them_can() -> None:
    _, pool = pools()

    able = pool.capabilities()

    assert able.hot_join
    assert able.standbys
    assert able.victims is Victims.ANY
