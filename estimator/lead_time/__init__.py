"""Lead time, pause and failures of a pool, learned from what its resizes did; see docs/throughput.md."""

from estimator.lead_time.durations import Durations
from estimator.lead_time.pool_times import Failures, PoolTimes

__all__ = ["Durations", "Failures", "PoolTimes"]
