"""What others do with the same windows: straight lines, and the scalability law by least squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import nnls

from estimator.throughput import ThroughputWindow

Curve = Callable[[int], float]


def linear(windows: Sequence[ThroughputWindow]) -> Curve:
    """Twice the workers, twice the samples: the speed of the last window, per busy worker."""
    last = windows[-1]
    speed = last.samples_per_s / (last.busy or last.ready)
    return lambda n: speed * n


def plain_law(windows: Sequence[ThroughputWindow]) -> Curve:
    """Gunther's: n/X(n) = (1 + σ(n-1) + κn(n-1))/λ is linear in 1/λ, σ/λ, κ/λ, none of them negative."""
    sizes = np.array([float(window.ready) for window in windows])
    rates = np.array([w.samples_per_s / (w.busy or w.ready) * w.ready for w in windows])
    terms = np.stack([np.ones_like(sizes), sizes - 1, sizes * (sizes - 1)], axis=1)
    if len(windows) == 1:
        terms[:, 1:] = 0.0  # one point tells one number
    (base, contention, coherency), _ = nnls(terms, sizes / rates)
    return lambda n: n / (base + contention * (n - 1) + coherency * n * (n - 1))


PEERS: dict[str, Callable[[Sequence[ThroughputWindow]], Curve]] = {
    "linear": linear,
    "plain-law": plain_law,
}
