"""Guarantees as cells: against a packer that tries everything, and under whatever the jobs do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.fleet import InvalidFleet, JobId, Node
from estimator.fleet.buddies import FreeCells
from estimator.fleet.cells import Cell, cells_of, divided, units_by_size, units_in
from estimator.fleet.layout import Layout, Resident, Shape, laid_out
from estimator.fleet.placement import Placement, check_topology, placed

some = settings(max_examples=60, deadline=None)
A, B, C = JobId("", "a"), JobId("", "b"), JobId("", "c")


def racks(racks: int, nodes: int, gpus: int, switch: int = 0) -> list[Node]:
    return [
        Node(f"n{rack}{node}", "a100", gpus, (f"r{rack}",), switch_gpus=switch)
        for rack in range(racks)
        for node in range(nodes)
    ]


def packs(tops: Sequence[Cell], taken: set[int], sizes: Sequence[int]) -> bool:
    """Try every cell for the largest size, then the next: slow, and plainly right."""
    if not sizes:
        return True
    size, *rest = sorted(sizes, reverse=True)
    return any(
        packs(tops, taken | set(cell.numbers), rest)
        for top in tops
        for cell in top.walk()
        if cell.gpus >= size and taken.isdisjoint(cell.numbers)
    )


trees = st.sampled_from(
    [
        racks(1, 2, 4, 2),
        racks(2, 2, 2),
        racks(2, 1, 4, 2),
        [Node("n0", "a100", 8, switch_gpus=4)],
        [Node("n0", "a100", 4), Node("n1", "a100", 4)],
    ]
)


@some
@given(trees, st.sets(st.integers(0, 7), max_size=6), st.data())
def test_free_cells_hold_what_trying_everything_holds(
    nodes: list[Node], taken: set[int], data: st.DataObject
) -> None:
    tops = cells_of(nodes)
    kinds = sorted({cell.gpus for top in tops for cell in top.walk()})
    sizes = data.draw(st.lists(st.sampled_from(kinds), max_size=4))

    assert FreeCells.around(tops, taken).can_hold(sizes) == packs(tops, taken, sizes)


@given(trees, st.sets(st.integers(0, 7)))
def test_a_cell_is_free_when_all_its_gpus_are_and_buddies_merge(nodes: list[Node], taken: set[int]) -> None:
    tops = cells_of(nodes)
    for cell in (cell for top in tops for cell in top.walk()):
        alone = taken - set(cell.numbers)
        free = FreeCells.around(tops, alone)
        held = free.take(cell.gpus)
        assert held is not None
        assert held.gpus == cell.gpus


@given(trees, st.integers(0, 8), st.sampled_from((1, 2, 3, 4)))
def test_a_guarantee_divides_into_cells_that_hold_it(nodes: list[Node], units: int, unit: int) -> None:
    tops = cells_of(nodes)
    cells = [cell for top in tops for cell in top.walk()]
    sizes = divided(units, units_by_size(tops, unit), unit=unit)
    held = [min((units_in(cell, unit) for cell in cells if cell.gpus == size), default=0) for size in sizes]

    if max(node.gpus for node in nodes) < unit:
        assert not units or min(sizes) > max(cell.gpus for cell in cells)
    else:
        assert sum(held) >= units
    assert list(sizes) == sorted(sizes, reverse=True)


def test_a_job_that_grows_into_its_guarantee_finds_a_whole_node() -> None:
    tops = cells_of(racks(1, 2, 4))
    shapes = [Shape(A, 1.0, guaranteed=4), Shape(B, 9.0, guaranteed=0)]
    surge = placed(tops, shapes, [], {A: 0, B: 8})
    grown = placed(tops, shapes, surge.seats, {A: 4, B: 8})

    assert surge.workers(B) == 4
    assert surge.refused == {B: 4}
    assert [(seat.job, seat.workers) for seat in grown.seats] == [(A, 4), (B, 4)]
    assert not grown.evicted


def test_surge_workers_fill_broken_nodes_before_they_break_whole_ones() -> None:
    tops = cells_of([Node("n0", "a100", 4), Node("n1", "a100", 4)])
    shapes = [Shape(A, 1.0, guaranteed=4), Shape(B, 1.0, guaranteed=0)]
    after = placed(tops, shapes, [Resident(B, "n1", 1)], {B: 4})

    assert after.seats == (Resident(B, "n1", 4),)


def test_workers_in_a_guarantees_way_are_moved_and_only_those() -> None:
    tops = cells_of([Node("n0", "a100", 4), Node("n1", "a100", 4)])
    shapes = [Shape(A, 1.0, guaranteed=4), Shape(B, 1.0, guaranteed=0)]
    spread = [Resident(B, "n0", 1), Resident(B, "n1", 1)]
    after = placed(tops, shapes, spread, {A: 4, B: 2})

    assert after.workers(A) == 4
    assert len({seat.node for seat in after.seats if seat.job == A}) == 1
    assert after.workers(B) == 2
    assert after.evicted == {B: 1}


def test_after_a_lost_node_guarantees_are_placed_again_first() -> None:
    tops = cells_of([Node("n1", "a100", 4)])
    shapes = [Shape(A, 1.0, guaranteed=4), Shape(B, 50.0, guaranteed=0)]
    after = placed(tops, shapes, [Resident(A, "n0", 4), Resident(B, "n1", 4)], {A: 4, B: 4})

    assert after.seats == (Resident(A, "n1", 4),)
    assert after.evicted == {B: 4}
    assert after.refused == {B: 4}


def test_when_not_all_guarantees_have_a_place_they_have_what_there_is() -> None:
    tops = cells_of([Node("n1", "a100", 4)])
    shapes = [Shape(A, 1.0, guaranteed=4), Shape(B, 2.0, guaranteed=4)]
    after = placed(tops, shapes, [], {A: 4, B: 4})

    assert after.workers(A) + after.workers(B) == 4


def test_quarter_gpu_workers_share_one() -> None:
    tops = cells_of([Node("n0", "a100", 2)])
    after = placed(tops, [Shape(A, 1.0, 0, gpus_per_worker=0.25)], [], {A: 9})

    assert after.workers(A) == 8
    assert after.refused == {A: 1}


def test_guarantees_that_fit_by_sum_and_not_by_cells_are_refused() -> None:
    tops = cells_of([Node("n0", "a100", 3), Node("n1", "a100", 3)])
    with pytest.raises(InvalidFleet, match="cells of 3, 3, 3 GPUs"):
        check_topology(tops, [Shape(job, 1.0, 1, gpus_per_worker=2.0) for job in (A, B, C)], "a100")


@dataclass(frozen=True)
class Story:
    """Guarantees that fit, and what the jobs want from tick to tick."""

    nodes: list[Node]
    shapes: list[Shape]
    ticks: list[dict[JobId, int]]

    @property
    def tops(self) -> tuple[Cell, ...]:
        return cells_of(self.nodes)

    def placed(self, tick: int = 0, seats: Sequence[Resident] = ()) -> Placement:
        return placed(self.tops, self.shapes, seats, self.ticks[tick])

    def shown(self, seats: Sequence[Resident]) -> Layout:
        """As whoever takes over works it out."""
        return laid_out(self.tops, self.shapes, seats)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    nodes = draw(trees)
    tops = cells_of(nodes)
    jobs = [A, B, C]
    shapes = [
        Shape(
            job,
            draw(st.sampled_from((1.0, 3.0))),
            draw(st.integers(0, 3)),
            draw(st.sampled_from((1.0, 1.0, 2.0))),
        )
        for job in jobs
    ]
    while not laid_out(tops, shapes, []).safe():
        shapes = [Shape(s.job, s.weight, max(0, s.guaranteed - 1), s.gpus_per_worker) for s in shapes]
    ticks = draw(
        st.lists(st.fixed_dictionaries({job: st.integers(0, 8) for job in jobs}), min_size=1, max_size=5)
    )
    return Story(nodes, shapes, ticks)


def gpus_by_node(seats: Iterable[Resident], shapes: Sequence[Shape]) -> Counter[str]:
    unit = {shape.job: shape.unit for shape in shapes}
    used: Counter[str] = Counter()
    for seat in seats:
        used[seat.node] += seat.workers * unit[seat.job]
    return used


@some
@given(stories())
def test_whatever_the_others_do_a_guarantee_is_there_when_it_is_wanted(story: Story) -> None:
    seats: tuple[Resident, ...] = ()
    for tick, targets in enumerate(story.ticks):
        after = story.placed(tick, seats)
        used = gpus_by_node(after.seats, story.shapes)
        assert all(used[node.name] <= node.gpus for node in story.nodes)
        for shape in story.shapes:
            assert after.workers(shape.job) >= min(shape.guaranteed, targets[shape.job])
            assert after.workers(shape.job) + after.refused.get(shape.job, 0) == targets[shape.job]
        seats = after.seats


@some
@given(stories())
def test_what_is_free_can_hold_every_guarantee_that_is_not_in_use(story: Story) -> None:
    layout = story.shown(story.placed().seats)

    assert packs(story.tops, layout.taken(), layout.owing())


@some
@given(stories())
def test_a_layout_rebuilt_from_the_platform_moves_nobody(story: Story) -> None:
    first = story.placed()
    again = story.placed(seats=first.seats)

    assert again.seats == first.seats
    assert not again.evicted


@some
@given(stories())
def test_a_worker_is_refused_only_where_no_gpu_could_take_it_safely(story: Story) -> None:
    after = story.placed()
    layout, tops = story.shown(after.seats), story.tops
    for job in after.refused:
        unit = next(shape.unit for shape in story.shapes if shape.job == job)
        for cell in (cell for top in tops for cell in top.walk() if cell.gpus >= unit and cell.node):
            if layout.taken().isdisjoint(cell.numbers):
                assert not packs(tops, layout.taken() | set(cell.numbers), layout.owing())
