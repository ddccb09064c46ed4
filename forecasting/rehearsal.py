"""Score models on the season before they are first asked, so that nobody starts without a record.

Trained models never saw that season: training holds the last one out. Without this, after
every start and every training all models would weigh the same for hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from forecasting.batch import batch_at
from forecasting.calendar import Calendar
from forecasting.cleaning import calm
from forecasting.history import TrafficHistory
from forecasting.learned import FleetModel
from forecasting.selector import Selector
from forecasting.voices import light_models, said_by_learned, said_by_light

ORIGINS = 36
"""Moments of the last season at which the models are asked."""


def rehearse(
    selector: Selector, history: TrafficHistory, learned: Sequence[FleetModel], calendar: Calendar
) -> None:
    """Play the last season to the selector, each forecast from what had been seen by then.

    With less than half a season known nothing is played: too little to judge by.
    """
    grid = selector.grid
    end, season = len(history.rates), grid.season
    first = int(np.argmax(~np.isnan(history.rates))) if history.known else end
    start = max(end - season, first + grid.bins(60))
    if end - start < season // 2:
        return
    origins = np.arange(start, end, max(1, season // ORIGINS))
    said = said_by_learned(learned, batch_at(grid, history, origins), calendar)
    light = light_models(grid)
    reads = 4 * season + 4 * grid.reach  # no more than light models look back
    for row, origin in enumerate(origins):
        low = max(0, int(origin) - reads)
        past = replace(
            history, start_s=history.start_s + low * history.step_s, rates=history.rates[low:origin]
        )
        if not past.known:
            continue
        past = calm(past, grid)
        words = said_by_light(light, past, grid)
        words |= {name: answers[row] for name, answers in said.items()}
        selector.settle(past)
        selector.mix(past.end_s, words)
