"""How long this worker has to leave once it is asked to: whoever will end it then says so."""

from __future__ import annotations

import os
from typing import Final

from services.settings.pool import PoolSettings

DRAIN_S: Final = "PENSTOCK_DRAIN_S"
"""What the pool that started this process, or a pod's manifest, gives it to leave, in seconds."""


def drain_time_s(pool: PoolSettings) -> float:
    """As told by whoever started this process, else by the settings, which may be others than the pool's.

    Raises ValueError where what was told is no number.
    """
    told = os.environ.get(DRAIN_S)
    return float(told) if told else pool.drain_s
