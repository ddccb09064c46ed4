"""Built-in traffic, for machines without recorded traces."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from services.simulator.trace import Trace
from services.traffic.shape import DAY_S, MONDAY_S, FlashCrowd, SyntheticTraffic

SHAPES: Mapping[str, SyntheticTraffic] = {
    "synthetic_smooth": SyntheticTraffic(noise=0.02, seed=11),
    "synthetic_noisy": SyntheticTraffic(noise=0.25, diurnal=0.4, seed=12),
    "synthetic_crowds": SyntheticTraffic(
        noise=0.06,
        crowds=tuple(
            FlashCrowd(start_s=MONDAY_S + day * DAY_S + hour * 3600.0, height=height)
            for day, hour, height in ((8, 11, 1.5), (10, 3, 2.5), (12, 19, 1.0), (13, 7, 3.0))
        ),
        seed=13,
    ),
}


def synthetic_traces(*, days: int = 14, step_s: float = 60.0) -> tuple[Trace, ...]:
    """A few weeks of minutes from each shape, from a Monday on."""
    bins = round(days * DAY_S / step_s)
    starts = MONDAY_S + np.arange(bins, dtype=np.float64) * np.float64(step_s)
    return tuple(
        Trace(name, starts, shape.rates(starts + step_s / 2), float(starts[-1] + step_s), step_s)
        for name, shape in SHAPES.items()
    )
