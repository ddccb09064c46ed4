"""What the planner's forecast looks at, against the plain definitions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from estimator.planner.features import Floats, guarded, recent_highs

levels_of_bins = st.lists(st.integers(-9, 9), min_size=1, max_size=40).map(
    lambda levels: np.array(levels, dtype=np.float64)
)


@given(levels=levels_of_bins, guard=st.integers(2, 12))
def test_the_recent_high_is_the_highest_mean_of_three_within_the_guard(levels: Floats, guard: int) -> None:
    highs = recent_highs(levels, guard)

    for place in range(len(levels)):
        means = [levels[end - 2 : end + 1].mean() for end in range(max(place - guard, 2), place)]
        assert np.isclose(highs[place], max(means, default=-np.inf))


@given(levels=levels_of_bins, guard=st.integers(2, 12), later=st.integers(1, 9))
def test_the_recent_high_knows_nothing_of_its_own_bin_nor_of_what_follows(
    levels: Floats, guard: int, later: int
) -> None:
    changed = np.append(levels[:-1], levels[-1] + later)

    assert np.array_equal(recent_highs(changed, guard), recent_highs(levels, guard))


def test_a_short_outage_is_no_quiet_future_and_a_long_one_is_believed() -> None:
    levels = np.array([5.0] * 10 + [0.0] * 12)

    calm = guarded(levels, recent_highs(levels, 8), fall=1.0)

    assert (calm[10:16] >= 3.0).all()
    assert calm[-1] == 0.0
