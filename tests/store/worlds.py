"""Decisions and states to store: plain ones by name, wild ones for properties."""

from dataclasses import replace

from hypothesis import strategies as st

from estimator.lead_time import PoolTimes
from estimator.rules.penstock import PenstockMemory
from estimator.rules.reactive import ReactiveMemory
from estimator.rules.settle import Settling
from estimator.throughput import Guess, ThroughputWindow
from services.control.breaker import Breaker
from services.control.learned import Gathered, PauseWatch, PoolMemory, Throughput
from services.control.rolling_count import RollingCount
from services.control.safety import Asked, SafetyMemory
from services.control.types import ControlState, Decision, ForecastUsed, PoolResize, Reason, WorkerReport
from shuffler.assignment import Assignment


def a_state(sequence: int = 1, *, owner: str = "w-1") -> ControlState:
    return ControlState(
        sequence=sequence,
        planned=3,
        rule="penstock",
        memory=PenstockMemory(Settling(since_s=12.5, largest=2)),
        throughput=a_throughput((2, 3)),
        pool=PoolMemory(
            PoolTimes(120.0).ready(50.0, asked_at_s=1.0), lead_time_s=130.0, awaited={"w-3": 9.0}
        ),
        assignment=Assignment({0: (owner,), 1: (owner, "w-2")}),
        pool_failures=1,
    )


def a_throughput(sizes: tuple[int, ...], *, busy: float | None = 0.8) -> Throughput:
    """As learned from two windows of each size."""
    types, guess = Throughput().types, Guess(250.0)
    for tick, n in enumerate(2 * size for size in sizes for _ in range(2)):
        share = None if busy is None else busy * n
        window = ThroughputWindow(10.0 * tick, n, 100.0 * n, busy=share, saturated=True, gpu_type="a10")
        types = types.seen(window, guess)
    return Throughput(
        types, "a10", Gathered(since_s=5.0, ready=2, ticks=1, told=1, busy=0.5, rate=50.0), guess
    )


def a_decision(
    sequence: int = 1, *, job: str = "clicks", owner: str = "w-1", fence: int = 1, changed: bool = True
) -> Decision:
    state = a_state(sequence, owner=owner)
    return Decision(
        id=f"{job}-{sequence}",
        job=job,
        at_s=1_000.0 + sequence,
        planned=3,
        requested=2,
        ready=2,
        reason=Reason.FORECAST_RISE,
        notes=(Reason.FALLBACK_FORECAST, Reason.WORKERS_LOST),
        numbers={"rate_per_s": 812.25, "fence": float(fence)},
        resize=PoolResize(3, decision_id=f"{job}-{sequence}", fence=fence, remove=("w-9",)),
        assignment=state.assignment if changed else None,
        state=state,
    )


def told(decision: Decision) -> Decision:
    """The decision as a store gives it back: without its state."""
    return replace(decision, state=ControlState())


def a_report(worker: str = "w-1", *, trained: int = 10) -> WorkerReport:
    return WorkerReport(worker, at_s=1_000.0, trained=trained, busy=0.75, rate_per_busy_s=120.5)


_counts = st.integers(min_value=0, max_value=2**70)
_floats = st.floats(allow_nan=False, allow_infinity=False)
_names = st.text(max_size=12)

settlings = st.builds(Settling, since_s=st.none() | _floats, largest=_counts)
assignments = st.builds(
    Assignment,
    st.dictionaries(st.integers(min_value=0, max_value=2**31), st.lists(_names, max_size=3).map(tuple)),
    st.none() | st.lists(_names, max_size=3).map(tuple),
)
throughputs = st.sampled_from(
    [
        a_throughput(()),
        a_throughput((1,), busy=None),
        a_throughput((2, 3)),
        replace(a_throughput((1, 8, 64), busy=0.3), refused=3),
    ]
)
pool_times = st.builds(
    PoolTimes,
    lead_time_stated_s=st.floats(0, 1e6),
    pauses=st.lists(st.floats(0, 1e4), max_size=3).map(tuple),
    starts=st.dictionaries(_names, st.lists(st.floats(0, 1e6), max_size=3).map(tuple), max_size=2),
    asked_at_s=st.dictionaries(_names, _floats, max_size=2),
)
pools = st.builds(
    PoolMemory,
    times=st.none() | pool_times,
    lead_time_s=_floats,
    pause_s=_floats,
    awaited=st.dictionaries(_names, _floats, max_size=3),
    ready=st.lists(_names, max_size=3).map(tuple),
    failures=_counts,
    at_s=_floats,
    lag_s=_floats,
    worker_s=_floats,
    pause=st.none() | st.builds(PauseWatch, _floats, _floats, _floats),
)
memories = st.one_of(
    st.tuples(st.just(""), st.none()),
    st.tuples(st.just("penstock"), st.builds(PenstockMemory, settlings)),
    st.tuples(st.just("reactive"), st.builds(ReactiveMemory, settlings)),
)


_breakers = st.builds(Breaker, _counts, _counts, st.none() | _floats, _names)
safeties = st.builds(
    SafetyMemory,
    hour=st.builds(RollingCount, st.floats(1, 1e6), st.lists(st.tuples(_counts, _counts)).map(tuple)),
    up=_breakers,
    down=_breakers,
    asked=st.none() | st.builds(Asked, _floats, _counts, _counts, _counts, _floats, st.booleans()),
    wall_at_s=st.none() | _floats,
)
resizes = st.builds(
    PoolResize,
    workers=_counts,
    decision_id=_names,
    fence=_counts,
    remove=st.lists(_names).map(tuple),
    gpu_type=_names,
    release=st.booleans(),
)


@st.composite
def states(draw: st.DrawFn) -> ControlState:
    rule, memory = draw(memories)
    return ControlState(
        sequence=draw(_counts),
        planned=draw(st.none() | _counts),
        standbys=draw(_counts),
        standbys_lent=draw(_counts),
        rule=rule,
        memory=memory,
        throughput=draw(throughputs),
        pool=draw(pools),
        assignment=draw(assignments),
        pool_failures=draw(_counts),
        safety=draw(safeties),
        resized=draw(st.none() | resizes),
        gpu_type=draw(_names),
    )


decisions = st.builds(
    Decision,
    id=_names,
    job=_names,
    at_s=_floats,
    planned=_counts,
    requested=_counts,
    ready=_counts,
    reason=st.sampled_from(Reason),
    notes=st.lists(st.sampled_from(Reason)).map(tuple),
    numbers=st.dictionaries(_names, st.floats(allow_nan=False)),
    resize=st.none() | resizes,
    assignment=st.none() | assignments,
    state=states(),
    forecast=st.none()
    | st.builds(
        ForecastUsed,
        model=_names,
        issued_at_s=_floats,
        score=st.none() | _floats,
        trouble=_names,
        heeded=st.booleans(),
    ),
)
reports = st.builds(
    WorkerReport, worker=_names, at_s=_floats, trained=_counts, busy=_floats, rate_per_busy_s=_floats
)
