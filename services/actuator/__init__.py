"""Pools of workers: what can be asked for workers, and what it answers."""

from services.actuator.backoff import Backoff
from services.actuator.launcher import penstock_worker
from services.actuator.lead_time import LeadTime
from services.actuator.memory_pool import MemoryPool
from services.actuator.process_pool import ProcessPool
from services.actuator.recommend_pool import RecommendPool

__all__ = ["Backoff", "LeadTime", "MemoryPool", "ProcessPool", "RecommendPool", "penstock_worker"]
