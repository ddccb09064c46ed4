"""Decisions and states to store: plain ones by name, wild ones for properties."""

from dataclasses import replace

from hypothesis import strategies as st

from estimator.capacity import Capacity
from estimator.rules.penstock import PenstockMemory
from estimator.rules.reactive import ReactiveMemory
from estimator.rules.settle import Settling
from services.control.types import ControlState, Decision, PoolResize, Reason, WorkerReport
from shuffler.assignment import Assignment


def a_state(sequence: int = 1, *, owner: str = "w-1") -> ControlState:
    return ControlState(
        sequence=sequence,
        planned=3,
        rule="penstock",
        memory=PenstockMemory(Settling(since_s=12.5, largest=2)),
        capacity=Capacity(250.0, observations=7),
        assignment=Assignment({0: (owner,), 1: (owner, "w-2")}),
        pool_failures=1,
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
)
capacities = st.builds(
    Capacity,
    rate_per_worker=st.floats(min_value=1e-9, max_value=1e12),
    contention=st.floats(min_value=0, max_value=1, exclude_max=True),
    observations=_counts,
)
memories = st.one_of(
    st.tuples(st.just(""), st.none()),
    st.tuples(st.just("penstock"), st.builds(PenstockMemory, settlings)),
    st.tuples(st.just("reactive"), st.builds(ReactiveMemory, settlings)),
)


@st.composite
def states(draw: st.DrawFn) -> ControlState:
    rule, memory = draw(memories)
    return ControlState(
        sequence=draw(_counts),
        planned=draw(st.none() | _counts),
        rule=rule,
        memory=memory,
        capacity=draw(st.none() | capacities),
        assignment=draw(assignments),
        pool_failures=draw(_counts),
    )


resizes = st.builds(
    PoolResize, workers=_counts, decision_id=_names, fence=_counts, remove=st.lists(_names).map(tuple)
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
)
reports = st.builds(
    WorkerReport, worker=_names, at_s=_floats, trained=_counts, busy=_floats, rate_per_busy_s=_floats
)
