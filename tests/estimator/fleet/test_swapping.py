"""Who gives way for whom: against a search through all ways."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from estimator.fleet import JobId
from estimator.fleet.swapping import Side, WayIn, way_in


@st.composite
def sides(draw: st.DrawFn, name: str) -> Side:
    steps = draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    rates = [0.0]
    for step in steps:
        rates.append(rates[-1] + step)
    curve = tuple(min(1.0, rate / 8) for rate in rates)
    return Side(JobId("", name), curve, draw(st.integers(0, len(steps))))


def every_way(mover: Side, free: int, leavers: list[Side]) -> list[tuple[int, tuple[int, ...]]]:
    """All that are allowed: the mover's workers, and what each of the others keeps."""
    keeps = product(*(range(side.least, side.most + 1) for side in leavers))
    return [
        (workers, kept)
        for kept in keeps
        for workers in range(max(1, mover.least), mover.most + 1)
        if workers <= free + sum(side.most - one for side, one in zip(leavers, kept, strict=True))
    ]


@given(mover=sides("ads"), free=st.integers(0, 3), leavers=st.tuples(sides("feed"), sides("mail")))
def test_the_way_is_allowed_and_no_other_leaves_the_least_satisfied_better_off(
    mover: Side, free: int, leavers: tuple[Side, Side]
) -> None:
    ways = every_way(mover, free, list(leavers))

    found = way_in(mover, float(free), leavers)

    assert (found is None) == (not ways)
    if found is not None:
        check(found, mover, free, leavers)
        best = max(
            min(mover.satisfaction[n], *(side.satisfaction[k] for side, k in zip(leavers, kept, strict=True)))
            for n, kept in ways
        )
        assert found.satisfaction == best


def check(found: WayIn, mover: Side, free: int, leavers: tuple[Side, Side]) -> None:
    kept = [found.yields.get(side.job, side.most) for side in leavers]
    assert max(1, mover.least) <= found.workers <= mover.most
    assert all(one >= side.least for side, one in zip(leavers, kept, strict=True) if side.job in found.yields)
    assert found.workers <= free + sum(side.most - one for side, one in zip(leavers, kept, strict=True))
