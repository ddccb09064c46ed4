"""Random fleets, and a verifier that knows the rules but not the code that keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import strategies as st

from estimator.fleet import Budget, Configuration, FleetPlan, Standing, Wish

TYPES = ("a100", "t4", "v100")


def linear(rate: float, workers: int) -> tuple[float, ...]:
    """A curve without contention."""
    return tuple(rate * count for count in range(workers + 1))


def wishing(
    name: str,
    workers: int,
    *,
    kind: str = "a100",
    rate: float = 100.0,
    current: int = 0,
    pinned: bool = False,
    **standing: object,
) -> Wish:
    """A job on one type that demands just what its wish trains."""
    job = Standing(name, **standing)  # type: ignore[arg-type]
    return Wish(
        job,
        {kind: workers},
        {kind: linear(rate, workers)},
        rate * workers,
        current=Configuration(kind, current) if current else Configuration("", 0),
        pinned=pinned,
    )


@st.composite
def curves(draw: st.DrawFn) -> tuple[float, ...]:
    """Throughput by count: any shape that a model may draw, with peaks and flat parts."""
    steps = draw(st.lists(st.integers(-20, 100), min_size=1, max_size=10))
    rates = [0.0]
    for step in steps:
        rates.append(max(0.0, rates[-1] + step))
    return tuple(rates)


@st.composite
def wishes(draw: st.DrawFn, name: str, *, types: Sequence[str], whole: bool = False) -> Wish:
    """One job of any shape; `whole` keeps to one GPU a worker and no fewest workers."""
    kinds = draw(st.lists(st.sampled_from(types), min_size=1, max_size=len(types), unique=True))
    guaranteed = draw(st.sampled_from((0, 0, 0, 1, 2)))
    job = Standing(
        name,
        tenant=draw(st.sampled_from(("", "ads", "feed"))),
        weight=draw(st.sampled_from((0.0, 0.5, 1.0, 1.0, 4.0))),
        guaranteed=guaranteed,
        gpu_types=tuple(kinds),
        gpus_per_worker=1.0 if whole else draw(st.sampled_from((0.25, 0.5, 1.0, 1.0, 2.0, 4.0))),
        workers_min=0 if whole else draw(st.sampled_from((0, 0, 1, 2))) if guaranteed != 1 else 1,
    )
    current = draw(st.builds(Configuration, st.sampled_from(kinds), st.integers(1, 4)) | st.none())
    return Wish(
        job,
        {kind: draw(st.integers(0, 10)) for kind in kinds},
        {kind: draw(curves()) for kind in kinds},
        float(draw(st.integers(0, 500))),
        current=current or Configuration("", 0),
        pinned=current is not None and draw(st.sampled_from((False, False, False, True))),
        restart=draw(st.sampled_from((1.0, 1.0, 0.7))),
    )


@st.composite
def fleets(
    draw: st.DrawFn, *, types: Sequence[str] = TYPES, whole: bool = False, jobs_max: int = 6
) -> tuple[Budget, list[Wish]]:
    """A budget and wishes whose guarantees it can hold; from far too small to plenty."""
    count = draw(st.integers(1, jobs_max))
    asked = [draw(wishes(f"job-{index}", types=types, whole=whole)) for index in range(count)]
    held: Counter[str] = Counter()
    for wish in asked:
        held[wish.job.gpu_types[0]] += int(-(-wish.job.gpus(wish.job.guaranteed) // 1))
    counts = {kind: held[kind] + draw(st.integers(0, 20)) for kind in types}
    return Budget.counted(counts, node_gpus=draw(st.sampled_from((4, 8)))), asked


def trained(wish: Wish, at: Configuration) -> float:
    """Samples/s with the best use of so many workers."""
    if not at.workers or at.gpu_type not in wish.curves:
        return 0.0
    return max(wish.curves[at.gpu_type][: at.workers + 1])


def satisfied(wish: Wish, at: Configuration) -> float:
    """Share of the demand that is met."""
    return 1.0 if wish.demand_per_s == 0 else min(1.0, trained(wish, at) / wish.demand_per_s)


def verify(budget: Budget, asked: Sequence[Wish], plan: FleetPlan) -> None:
    """Every rule that holds whatever the method."""
    there = budget.gpus
    used: Counter[str] = Counter()
    assert [allotment.job for allotment in plan.allotments] == [wish.id for wish in asked]
    pinned = Counter[str]()
    for wish in asked:
        if wish.pinned:
            pinned[wish.current.gpu_type] += wish.job.gpus(wish.current.workers)  # type: ignore[assignment]
    pins_hold = {kind: gpus <= there.get(kind, 0) for kind, gpus in pinned.items()}
    guarantees_fit = _guarantees_fit(budget, asked, pins_hold)
    for wish, allotment in zip(asked, plan.allotments, strict=True):
        at = allotment.given
        used[at.gpu_type] += wish.job.gpus(at.workers)  # type: ignore[assignment]
        assert abs(allotment.satisfaction - satisfied(wish, at)) < 1e-9
        if wish.pinned and pins_hold[wish.current.gpu_type]:
            assert at == wish.current
            continue
        _verify_limits(wish, at)
        if guarantees_fit:
            assert satisfied(wish, at) >= satisfied(wish, _promise(wish)) - 1e-9, wish
    for kind, gpus in used.items():
        if kind:
            assert gpus <= there.get(kind, 0), kind


def _verify_limits(wish: Wish, at: Configuration) -> None:
    if not at.workers:
        assert at.gpu_type == ""
        return
    assert wish.job.may_use(at.gpu_type)
    assert at.workers >= wish.job.workers_min
    assert at.workers <= max(wish.workers[at.gpu_type], wish.job.workers_min)


def _promise(wish: Wish) -> Configuration:
    home = wish.job.gpu_types[0] if wish.job.gpu_types else next(iter(wish.workers))
    most = wish.workers[home] and max(wish.workers[home], wish.job.workers_min)
    return Configuration(home, min(wish.job.guaranteed, most))


def _guarantees_fit(budget: Budget, asked: Sequence[Wish], pins_hold: dict[str, bool]) -> bool:
    """Whether all promises fit beside what is pinned."""
    need: Counter[str] = Counter()
    for wish in asked:
        at = wish.current if wish.pinned and pins_hold[wish.current.gpu_type] else _promise(wish)
        need[at.gpu_type] += wish.job.gpus(at.workers)  # type: ignore[assignment]
    there = budget.gpus
    return all(gpus <= there.get(kind, 0) for kind, gpus in need.items() if gpus)
