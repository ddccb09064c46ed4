"""n workers that take turns at a shared resource: mean value analysis of the closed queue.

All times are seconds per *sample* (a step's time over its batch), which leaves the
formulae as they are: n customers, each with one batch.
"""

from __future__ import annotations

from dataclasses import dataclass

HALVINGS = 16


@dataclass(frozen=True, slots=True)
class ClosedQueue:
    """Z, D and cv² of a sample."""

    own_s: float
    """Z: what a worker needs whatever the others do: input, GPU, network."""
    demand_s: float
    """D: service at the busiest shared resource."""
    service_cv2: float = 1.0
    """Variance over squared mean of that service; 1 is exponential, 0 is regular."""

    @property
    def ceiling_per_s(self) -> float:
        """1 / D: what the shared resource lets through, whatever the number of workers."""
        return 1 / self.demand_s if self.demand_s > 0 else float("inf")


def solve(queue: ClosedQueue, workers: int) -> tuple[float, ...]:
    """Samples/s of 0, 1, ..., `workers` workers.

    With n customers, the one that arrives finds what n-1 would leave there: Q waiting
    or served, U of them (at most one) in service, whose rest takes D(1 + cv²)/2. So

        R = D·(1 + Q - U) + U·D·(1 + cv²)/2        X = n / (Z + R) <= 1/D
        Q = X·R                                    U = X·D

    >>> [round(x, 3) for x in solve(ClosedQueue(own_s=1.0, demand_s=1.0), 3)]
    [0.0, 0.5, 0.8, 0.938]
    """
    curve = [0.0]
    waiting = served = 0.0
    z, d, rest_s = queue.own_s, queue.demand_s, queue.demand_s * (1 + queue.service_cv2) / 2
    ceiling = queue.ceiling_per_s
    for n in range(1, workers + 1):
        rate = min(n / (z + d * (1 + waiting - served) + served * rest_s), ceiling)
        curve.append(rate)
        waiting = n - rate * z  # whoever is not busy with its own is there; at the ceiling too
        served = rate * d
    return tuple(curve)


def at(curve: tuple[float, ...], workers: float) -> float:
    """A curve at a number of workers that need not be whole: busy ones are counted by their time.

    >>> at((0.0, 10.0, 18.0), 1.5)
    14.0
    """
    below = min(int(workers), len(curve) - 2)
    return curve[below] + (workers - below) * (curve[below + 1] - curve[below])


def queue_through(*, cycle_s: float, busy: float, demand_s: float, service_cv2: float) -> ClosedQueue:
    """The queue in which `busy` workers have the cycle that was measured.

    Z is found by halving, since the cycle grows with it. What no queue explains, a
    slow network or a prefetch that hides part of the wait, ends up in Z: so the curve
    passes through what was seen, and what was not measured need not be modelled.
    """
    low, high = 0.0, cycle_s
    crowd = max(busy, 1.0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        curve = solve(ClosedQueue(middle, demand_s, service_cv2), int(crowd) + 1)
        if crowd / at(curve, crowd) > cycle_s:
            high = middle
        else:
            low = middle
    return ClosedQueue(low, demand_s, service_cv2)
