"""Where a worker that waits should come: by rules restated here, beside guarantees packed by brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.fleet import Budget, JobId, Node, Standing
from estimator.fleet.arrivals import STRANGER, Arrival, Floor, Seat, SeatReason, in_order
from estimator.fleet.guarantees import homes_of
from estimator.fleet.layout import Resident
from estimator.fleet.machines import WEIGHTS, Amounts, Machine

some = settings(max_examples=80, deadline=None)
A, B = JobId("", "a"), JobId("", "b")


def machine(
    name: str, *, gpus: float = 4, cores: float = 0, used: float = 0, gib: float = 0, price: float = 1
) -> Machine:
    """A node of 32 cores and 256 GiB, so much of it taken."""
    return Machine(name, Amounts(32, 256, gpus), Amounts(cores, gib, used), price if gpus else 0.0)


def floor_of(machines: Sequence[Machine], *jobs: Standing, residents: Sequence[Resident] = ()) -> Floor:
    """One type of GPU, on the machines that have some."""
    nodes = tuple(Node(one.name, "a100", int(one.room.gpus)) for one in machines if one.room.gpus)
    budget = Budget(nodes)
    return Floor(
        budget,
        {one.name: one for one in machines},
        {job.id: job for job in jobs},
        homes_of(jobs, budget),
        list(residents),
    )


def arriving(
    gpus: float = 1.0, *, cores: float = 2, gib: float = 8, job: JobId | None = None, nodes: str = "n0 n1 n2"
) -> Arrival:
    return Arrival("w", Amounts(cores, gib, gpus), frozenset(nodes.split()), job)


def test_workers_of_whole_gpus_fill_the_fullest_node_and_leave_the_free_one_whole() -> None:
    floor = floor_of([machine("n0"), machine("n1", used=1), machine("n2", used=2)])

    seats = [floor.seat(arriving()) for _ in range(5)]

    assert [seat.node for seat in seats] == ["n2", "n2", "n1", "n1", "n1"]
    assert {seat.reason for seat in seats} == {SeatReason.PACKED}
    assert floor.seat(arriving(4.0)) == Seat("n0", SeatReason.PACKED)


def test_a_part_of_a_gpu_goes_where_cores_memory_and_gpus_are_least_taken() -> None:
    busy = [machine("n0", used=1, cores=30), machine("n1", used=2, cores=2), machine("n2", used=1, gib=200)]
    job = Standing("a", gpus_per_worker=0.25)

    assert floor_of(busy, job).seat(arriving(0.25, job=A)) == Seat("n1", SeatReason.SPREAD)


def test_a_part_of_a_gpu_opens_no_free_node_while_another_has_room() -> None:
    floor = floor_of([machine("n0"), machine("n1", used=3.5, cores=30)], Standing("a", gpus_per_worker=0.5))

    assert floor.seat(arriving(0.5, job=A)).node == "n1"
    assert floor.seat(arriving(0.5, job=A)).node == "n0"  # none is left on the other


def test_dear_gpus_are_kept_for_those_who_need_them() -> None:
    nodes = (Node("n0", "h100", 4), Node("n1", "t4", 4))
    machines = {"n0": machine("n0", price=9), "n1": machine("n1", price=1, used=0)}
    budget = Budget(nodes, {"h100": 9.0, "t4": 1.0})
    fussy = Standing("a", gpu_types=("h100",), gpus_per_worker=0.5)
    floor = Floor(budget, machines, {A: fussy})

    assert floor.seat(arriving()).node == "n1"
    assert floor.seat(arriving(0.5, job=A, nodes="n0")) == Seat("n0", SeatReason.PACKED)


def test_a_worker_without_gpus_keeps_off_the_nodes_that_have_some() -> None:
    floor = floor_of([machine("n0", used=1), machine("n1", gpus=0, cores=20), machine("n2", gpus=0, cores=4)])

    assert floor.seat(arriving(0.0)) == Seat("n2", SeatReason.SPREAD)


def test_cores_and_memory_bind_as_gpus_do() -> None:
    full = [machine("n0", used=3, cores=31), machine("n1", used=3, gib=250), machine("n2")]
    floor = floor_of(full)

    assert floor.seat(arriving(cores=2, gib=8)).node == "n2"
    assert floor.seat(arriving(cores=2, gib=8, nodes="n0 n1")) == Seat("", SeatReason.FULL)


def test_a_surge_worker_takes_no_node_that_a_guarantee_needs_whole() -> None:
    wide = Standing("a", guaranteed=1, gpus_per_worker=4.0)
    floor = floor_of([machine("n0"), machine("n1", used=3)], wide, residents=[Resident(STRANGER, "n1", 3)])

    assert floor.seat(arriving()).node == "n1"
    assert floor.seat(arriving()) == Seat("", SeatReason.KEPT)
    assert floor.seat(arriving(4.0, job=A)).node == "n0"
    assert floor.seat(arriving(4.0, job=A)) == Seat("", SeatReason.FULL)


def test_a_guaranteed_worker_comes_into_the_cells_that_are_bound_to_its_job() -> None:
    job = Standing("a", guaranteed=4)
    residents = [Resident(A, "n1", 1), Resident(STRANGER, "n0", 2)]
    floor = floor_of([machine("n0", used=2), machine("n1", used=1)], job, residents=residents)

    assert floor.seat(arriving(job=A)) == Seat("n1", SeatReason.RESERVED)
    assert floor.seat(arriving()).node == "n0"  # and not beside the guaranteed ones, where it would be packed


def test_what_is_lent_is_kept_for_nobody() -> None:
    wide = Standing("a", guaranteed=1, gpus_per_worker=4.0)
    floor = replace(floor_of([machine("n0")], wide), lent={A: 1})

    assert floor.seat(arriving()).node == "n0"


def test_a_guaranteed_worker_has_any_gpu_where_nodes_are_lost() -> None:
    jobs = [Standing("a", guaranteed=4), Standing("b", guaranteed=4)]
    floor = floor_of([machine("n0"), machine("n1")], *jobs)
    floor.budget = floor.budget.losing(["n1"])
    del floor.machines["n1"]

    assert floor.seat(arriving(job=A)).node == "n0"
    assert floor.seat(arriving()) == Seat("", SeatReason.KEPT)


def test_who_lacks_what_is_guaranteed_is_seated_first() -> None:
    jobs = [Standing("a", weight=9.0), Standing("b", guaranteed=1)]
    floor = floor_of([machine("n0")], *jobs)
    waiting = [replace(arriving(), worker=name, job=job) for name, job in (("x", None), ("y", A), ("z", B))]

    assert [one.worker for one in in_order(waiting, floor)] == ["z", "y", "x"]


amounts = st.builds(
    Amounts,
    st.sampled_from((0.0, 0.5, 2.0, 8.0)),
    st.sampled_from((0.0, 4.0, 64.0)),
    st.sampled_from((0.0, 0.25, 0.5, 1.0, 1.0, 2.0, 4.0)),
)


@st.composite
def machine_rooms(draw: st.DrawFn) -> list[Machine]:
    count = draw(st.integers(1, 5))
    return [
        machine(
            f"n{number}",
            gpus=draw(st.sampled_from((0, 2, 4, 8))),
            cores=draw(st.integers(0, 32)),
            gib=draw(st.integers(0, 256)),
            price=draw(st.sampled_from((1.0, 1.0, 3.0))),
        )
        for number in range(count)
    ]


def rated(one: Machine) -> tuple[bool, float, bool]:
    """What everybody avoids, the rules restated: GPUs without need, dear ones, and breaking a whole node."""
    return one.room.gpus > 0, one.price, one.room.gpus > 0 and one.taken.gpus == 0


def taken_share(one: Machine, needs: Amounts) -> float:
    pairs = [
        (WEIGHTS.cores, one.taken.cores + needs.cores, one.room.cores),
        (WEIGHTS.memory_gib, one.taken.memory_gib + needs.memory_gib, one.room.memory_gib),
        (WEIGHTS.gpus, one.taken.gpus + needs.gpus, one.room.gpus),
    ]
    return sum(w * taken / room for w, taken, room in pairs if room) / sum(w for w, _, r in pairs if r)


@some
@given(machine_rooms(), st.lists(amounts, max_size=12))
def test_without_guarantees_the_seat_is_the_best_by_the_rules_restated(
    machines: list[Machine], needed: list[Amounts]
) -> None:
    floor, twin = floor_of(machines), floor_of(list(reversed(machines)))
    nodes = frozenset(one.name for one in machines)
    for needs in needed:
        before = dict(floor.machines)
        able = [
            one
            for one in before.values()
            if one.taken.cores + needs.cores <= 32 + 1e-6
            and one.taken.memory_gib + needs.memory_gib <= 256 + 1e-6
            and one.taken.gpus + needs.gpus <= one.room.gpus + 1e-6
        ]
        seat = floor.seat(Arrival("w", needs, nodes))

        assert twin.seat(Arrival("w", needs, nodes)) == seat  # in whatever order the nodes are told
        if not able:
            assert seat == Seat("", SeatReason.FULL)
            continue
        chosen = before[seat.node]
        assert chosen in able
        rivals = [one for one in able if rated(one) == min(map(rated, able))]
        assert chosen in rivals
        if needs.gpus >= 1:
            assert chosen.room.gpus - chosen.taken.gpus == min(r.room.gpus - r.taken.gpus for r in rivals)
        else:
            assert taken_share(chosen, needs) <= min(taken_share(one, needs) for one in rivals) + 1e-9


def guarantees_fit(budget: Budget, jobs: Sequence[Standing], residents: Sequence[Resident]) -> bool:
    """Whether every job could have all that it is guaranteed now: tried node by node, whole units."""
    gpus = {job.id: int(job.gpus_per_worker) for job in jobs} | {STRANGER: 1}
    free, there = {node.name: node.gpus for node in budget.there}, Counter[JobId]()
    for one in residents:
        free[one.node] -= gpus[one.job] * one.workers
        there[one.job] += one.workers
    units = [gpus[job.id] for job in jobs for _ in range(max(0, job.guaranteed - there[job.id]))]
    return fits(sorted(units, reverse=True), list(free.values()))


def fits(units: list[int], free: list[int]) -> bool:
    if not units:
        return True
    return any(
        fits(units[1:], [*free[:at], room - units[0], *free[at + 1 :]])
        for at, room in enumerate(free)
        if room >= units[0] and room not in free[:at]
    )


@some
@given(st.data())
def test_nobody_who_comes_takes_what_a_guarantee_needs(data: st.DataObject) -> None:
    machines = [machine(f"n{number}", gpus=data.draw(st.sampled_from((2, 4)))) for number in range(3)]
    widths = st.sampled_from((1.0, 2.0, 4.0))
    jobs = [
        Standing(name, guaranteed=data.draw(st.integers(0, 2)), gpus_per_worker=data.draw(widths))
        for name in ("a", "b")
    ]
    sums = sum(job.gpus(job.guaranteed) for job in jobs)
    if sums > sum(one.room.gpus for one in machines):
        return
    floor = floor_of(machines, *jobs)
    if not guarantees_fit(floor.budget, jobs, []):
        return
    comers = data.draw(st.lists(st.sampled_from((A, B, None)), max_size=10))
    for job in comers:
        gpus = floor.standings[job].gpus_per_worker if job is not None else 1.0
        there = sum(one.workers for one in floor.residents if one.job == job)
        seat = floor.seat(arriving(gpus, cores=0, gib=0, job=job))

        assert guarantees_fit(floor.budget, jobs, floor.residents)
        if job is not None and there < floor.standings[job].guaranteed:
            assert seat.node  # what is guaranteed is there when it is wanted


@some
@given(machine_rooms(), st.lists(amounts, min_size=1, max_size=8))
def test_a_node_is_never_given_more_than_it_has(machines: list[Machine], needed: list[Amounts]) -> None:
    jobs = [Standing("a", guaranteed=1)] if any(one.room.gpus for one in machines) else []
    floor = floor_of(machines, *jobs)
    nodes = frozenset(one.name for one in machines[:3])
    seats = [floor.seat(Arrival("w", needs, nodes)) for needs in needed]

    assert all(one.taken.within(one.room) for one in floor.machines.values())
    assert {seat.node for seat in seats if seat.node} <= nodes
    refused = [needs for needs, seat in zip(needed, seats, strict=True) if not seat.node]
    taken = sum(one.taken.gpus for one in floor.machines.values())
    assert taken == sum(needs.gpus for needs in needed) - sum(needs.gpus for needs in refused)
