"""What a job would train on each type of GPU, those it never ran on included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from estimator.fleet.claims import EXACT
from estimator.fleet.standing import Configuration
from estimator.throughput.gpu_types import GpuTypes, Guess


def curves_of(
    known: GpuTypes, guess: Guess, gpu_types: Iterable[str], *, workers_max: int
) -> dict[str, tuple[float, ...]]:
    """C_low(0), C_low(1), ... on each type. A type never seen borrows from one that was.

    >>> curves = curves_of(GpuTypes(), Guess(10.0, 0.0), ["t4"], workers_max=2)
    >>> [round(rate) for rate in curves["t4"]]
    [0, 10, 20]
    """
    curves = {}
    for kind in gpu_types:
        model = known.of(kind, guess)
        curves[kind] = tuple(model.low(workers) for workers in range(workers_max + 1))
    return curves


def borrowed(curve: tuple[float, ...], *, lone_rate: float) -> tuple[float, ...]:
    """The curve of a type of which only a lone worker's rate is known: X_B(n) = X_A(n)·X_B(1)/X_A(1) (Sia).

    A lender of which a lone worker trains nothing lends nothing: the curve is then linear.

    >>> borrowed((0.0, 100.0, 180.0), lone_rate=50.0)
    (0.0, 50.0, 90.0)
    """
    if len(curve) < 2 or curve[1] <= 0:
        return tuple(lone_rate * workers for workers in range(len(curve)))
    return tuple(rate * lone_rate / curve[1] for rate in curve)


def wished_on_each(curves: Mapping[str, tuple[float, ...]], planned: Configuration) -> dict[str, int]:
    """On each type, the fewest workers that train what `planned` does; the best there is where none do.

    A job's planner sizes it for the type it runs on. On the others it would need as many as make up for it.

    >>> wished_on_each({"a100": (0.0, 90.0, 180.0), "t4": (0.0, 60.0, 120.0)}, Configuration("a100", 1))
    {'a100': 1, 't4': 2}
    """
    own = curves.get(planned.gpu_type, (0.0,))
    trained = own[min(planned.workers, len(own) - 1)]
    wished = {}
    for kind, curve in curves.items():
        enough = (workers for workers, rate in enumerate(curve) if rate >= trained - EXACT)
        wished[kind] = next(enough, max(range(len(curve)), key=lambda workers: (curve[workers], -workers)))
    if planned.gpu_type in wished:
        wished[planned.gpu_type] = planned.workers
    return wished
