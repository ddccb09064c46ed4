"""A table keeps what it was taught, grows to its bound, and then forgets what was used longest ago."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from services.samples.layout import Ids
from services.trainer.ps.placement import SLOTS, SlotMap, keys_of
from services.trainer.ps.table import DenseVector, EmbeddingTable, Learning


def table(rows_max: int = 64, *, row_size: int = 3, **learning: float) -> EmbeddingTable:
    return EmbeddingTable(row_size=row_size, rows_max=rows_max, learning=Learning(**learning))  # type: ignore[arg-type]


def keys(*ids: int) -> Ids:
    return keys_of(np.array(ids, np.uint64).reshape(-1, 1)).ravel()


def ones(count: int, value: float = 1.0, *, row_size: int = 3) -> NDArray[np.float32]:
    return np.full((count, row_size), value, np.float32)


def test_a_new_id_starts_from_no_weight_and_a_small_embedding_of_its_own() -> None:
    fresh = table().pull(keys(1, 2))

    assert fresh[:, 0].tolist() == [0.0, 0.0]
    assert np.all(np.abs(fresh[:, 1:]) <= 0.05)
    assert len(np.unique(fresh[:, 1:])) == 4
    assert np.array_equal(fresh, table().pull(keys(1, 2)))


def test_a_push_moves_rows_by_row_wise_adagrad() -> None:
    rows = table(rate=0.1, forget=0.0)
    before = rows.pull(keys(1))
    gradient = np.array([[0.3, 0.0, -0.4]], np.float32)

    rows.push(keys(1), gradient)
    once = rows.pull(keys(1))
    rows.push(keys(1), gradient)
    twice = rows.pull(keys(1))

    mean_square = (0.3**2 + 0.4**2) / 3
    assert once == pytest.approx(before - 0.1 * gradient / np.sqrt(mean_square), rel=1e-5)
    assert twice == pytest.approx(once - 0.1 * gradient / np.sqrt(2 * mean_square), rel=1e-5)


def test_squares_are_forgotten_so_that_drift_is_followed() -> None:
    def last_move(forget: float) -> float:
        rows = table(forget=forget)
        rows.pull(keys(1))
        for _ in range(500):
            rows.push(keys(1), ones(1))
        before = rows.pull(keys(1))
        rows.push(keys(1), ones(1))
        return float(np.abs(rows.pull(keys(1)) - before).max())

    assert last_move(0.05) > 3 * last_move(0.0)


def test_a_full_table_forgets_what_was_used_longest_ago() -> None:
    rows = table(rows_max=64)
    for first in range(0, 64, 8):
        rows.pull(keys(*range(first, first + 8)))
    rows.push(keys(0, 40), ones(2))
    taught = rows.pull(keys(0, 40))
    rows.pull(keys(*range(100, 116)))

    assert len(rows) <= 64
    assert rows.evicted >= 16
    assert np.array_equal(rows.pull(keys(0, 40)), taught), "used just before"
    known = set(rows.content().keys.tolist())
    assert not known & set(keys(*range(8, 16)).tolist())
    assert set(keys(*range(100, 116)).tolist()) <= known


def test_more_new_ids_than_there_is_room_for_are_served_but_not_kept() -> None:
    rows = table(rows_max=8)

    assert rows.pull(keys(*range(20))).shape == (20, 3)
    assert len(rows) == 8


def test_an_id_is_admitted_when_it_has_been_asked_for_often_enough() -> None:
    rows = table(admit_after=3)
    sizes = []
    for _ in range(4):
        rows.pull(keys(7))
        rows.push(keys(7), ones(1))
        sizes.append(len(rows))

    assert sizes == [0, 0, 1, 1]
    assert rows.unknown == 2


def test_a_restored_table_answers_as_the_one_it_was_copied_from() -> None:
    rows, restored = table(), table()
    rows.pull(keys(*range(50)))
    rows.push(keys(*range(50)), ones(50))

    restored.restore(rows.content())

    for other in (rows, restored):
        other.push(keys(3), ones(1, 0.5))
    assert np.array_equal(restored.pull(keys(*range(60))), rows.pull(keys(*range(60))))


def test_a_smaller_table_restores_what_was_used_last() -> None:
    rows, smaller = table(), table(rows_max=10)
    for number in range(30):
        rows.pull(keys(number))

    smaller.restore(rows.content())

    assert set(smaller.content().keys.tolist()) == set(keys(*range(20, 30)).tolist())
    smaller.pull(keys(99))
    assert len(smaller) <= 10


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True), max_size=40))
def test_whatever_is_asked_for_the_table_agrees_with_a_plain_dictionary(requests: list[list[int]]) -> None:
    """Eviction included: what the table still has is what the dictionary learned since it came."""
    rows = table(rows_max=16, row_size=1, rate=1.0, forget=0.0)
    plain: dict[int, tuple[float, float]] = {}
    for number, ids in enumerate(requests):
        rows.pull(keys(*ids))
        have = set(rows.content().keys.tolist())
        plain = {key: value for key, value in plain.items() if key in have}
        rows.push(keys(*ids), ones(len(ids), float(1 + number % 3), row_size=1))
        for key in set(keys(*ids).tolist()) & have:
            total, weight = plain.get(key, (0.0, 0.0))
            total += float(1 + number % 3) ** 2
            plain[key] = (total, weight - float(1 + number % 3) / np.sqrt(total))
    content = rows.content()

    assert len(content.keys) == len(rows) <= 16
    assert dict(zip(content.keys.tolist(), content.rows[:, 0].tolist(), strict=True)) == {
        key: pytest.approx(weight, rel=1e-3) for key, (_, weight) in plain.items()
    }


def test_the_dense_part_starts_once_and_follows_its_gradient() -> None:
    dense = DenseVector(Learning(dense_rate=0.1, forget=0.0))
    dense.begin(np.ones(3, np.float32))
    dense.begin(np.zeros(3, np.float32))

    dense.push(np.array([2.0, 0.0, -2.0], np.float32))

    assert dense.values.tolist() == pytest.approx([0.9, 1.0, 1.1])


def test_slots_spread_keys_evenly_and_equal_ids_of_two_fields_differ() -> None:
    ids = np.arange(20_000, dtype=np.uint64).reshape(-1, 2)
    found = keys_of(np.repeat(ids[:, :1], 2, axis=1))

    assert len(np.unique(found)) == found.size
    shares = np.bincount(SlotMap.by_capacity([1, 1, 2]).shards(found.ravel())) / found.size
    assert shares == pytest.approx([0.25, 0.25, 0.5], abs=0.02)


@pytest.mark.parametrize("wrong", [[], [1.0, 0.0]])
def test_capacities_must_be_positive(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        SlotMap.by_capacity(wrong)
    with pytest.raises(ValueError, match=str(SLOTS)):
        SlotMap(np.zeros(3, np.uint16))
