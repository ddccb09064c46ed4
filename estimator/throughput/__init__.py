"""The learned throughput model C(n). docs/throughput.md derives the formulae."""

from estimator.throughput.bottleneck import Binding, Bottleneck, Wall
from estimator.throughput.gpu_types import GpuTypes, Guess
from estimator.throughput.model import Confidence, ThroughputModel
from estimator.throughput.window import Lie, ResourceLoad, StepTimes, ThroughputWindow, busy_sum

__all__ = [
    "Binding",
    "Bottleneck",
    "Confidence",
    "GpuTypes",
    "Guess",
    "Lie",
    "ResourceLoad",
    "StepTimes",
    "ThroughputModel",
    "ThroughputWindow",
    "Wall",
    "busy_sum",
]
