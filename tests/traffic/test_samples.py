"""Samples are seeded, sized, numbered, and as skewed as asked."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from services.traffic.samples import SampleMaker


def test_the_same_seed_makes_the_same_samples_however_they_are_batched() -> None:
    whole, parts = SampleMaker(seed=5), SampleMaker(seed=5)

    assert whole.make(30, at_s=1.0) == [s for count in (7, 0, 23) for s in parts.make(count, at_s=1.0)]
    assert whole.make(1, at_s=1.0) != SampleMaker(seed=6).make(1, at_s=1.0)


def test_a_sample_carries_its_number_and_its_event_time_and_has_the_size_asked_for() -> None:
    maker = SampleMaker(payload_bytes=200)
    maker.make(41, at_s=0.0)

    [(key, value)] = maker.make(1, at_s=1234.5)

    sample = json.loads(value)
    assert len(value) == 200
    assert (sample["seq"], sample["at_s"]) == (41, 1234.5)
    assert key == f"user-{sample['user']}".encode()


def test_a_size_too_small_for_the_fields_still_gives_whole_samples() -> None:
    [(_, value)] = SampleMaker(payload_bytes=0).make(1, at_s=0.0)

    assert json.loads(value)["seq"] == 0


def test_skew_makes_few_keys_carry_much_of_the_traffic() -> None:
    def busiest(skew: float) -> float:
        keys = Counter(key for key, _ in SampleMaker(users=1000, skew=skew).make(20_000, at_s=0.0))
        return keys.most_common(1)[0][1] / 20_000

    assert busiest(0.0) < 0.005
    assert 0.1 < busiest(1.0) < 0.2


@pytest.mark.parametrize(
    "wrong", [{"users": 0}, {"skew": -1.0}, {"skew": float("nan")}, {"payload_bytes": -1}]
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        SampleMaker(**wrong)
