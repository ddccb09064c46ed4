"""Clicks are seeded and skewed, follow the hour, drift, and can be told by the model that made them."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

from services.samples.decode import decode
from services.samples.scores import auc
from services.traffic.clicks import CLICK_SHAPE, ClickMaker, Clicks
from services.traffic.tastes import Scene, Tastes

HOUR_S = 3600.0


def drawn(maker: ClickMaker, count: int, *, hour: float = 0.0) -> Clicks:
    return maker.draw(count, at_s=5.0, simulated_s=hour * HOUR_S)


def test_the_same_seed_makes_the_same_clicks_however_they_are_batched() -> None:
    whole, parts, other = ClickMaker(seed=5), ClickMaker(seed=5), ClickMaker(seed=6)

    together = whole.make(30, at_s=1.0, simulated_s=9.0)

    apart = [sample for count in (7, 0, 23) for sample in parts.make(count, at_s=1.0, simulated_s=9.0)]
    assert together == apart
    assert together != other.make(30, at_s=1.0, simulated_s=9.0)
    assert whole.made == parts.made == 30


def test_what_is_sent_is_a_sample_of_the_trainers_form_keyed_by_its_user() -> None:
    pairs = ClickMaker().make(50, at_s=1234.5, simulated_s=0.0)

    decoded = decode([value for _, value in pairs], CLICK_SHAPE)

    assert decoded.rejected == {}
    assert [key for key, _ in pairs] == [b"user-%d" % user for user in decoded.samples.ids[:, 0].tolist()]
    assert set(decoded.samples.at_s.tolist()) == {1234.5}


def test_few_users_and_items_make_up_much_of_the_traffic() -> None:
    clicks = drawn(ClickMaker(users=1000, skew=1.0), 20_000)

    def busiest(field: int) -> float:
        return Counter(clicks.samples.ids[:, field].tolist()).most_common(1)[0][1] / 20_000

    assert 0.1 < busiest(0) < 0.2
    assert busiest(1) > 5 / 2000


def test_what_is_popular_changes_by_the_hour() -> None:
    tastes = Tastes(users=10, items=10)

    morning, evening = tastes.popularity(8 * HOUR_S), tastes.popularity(20 * HOUR_S)

    assert morning.sum() == pytest.approx(1.0)
    assert np.abs(morning - evening).sum() > 0.3
    assert tastes.popularity(32 * HOUR_S) == pytest.approx(morning)


def test_the_hidden_model_tells_its_own_clicks_well_and_those_of_other_times_less_well() -> None:
    maker = ClickMaker(users=500, items=200)
    clicks = drawn(maker, 20_000, hour=10.0)
    ids, numbers = clicks.samples.ids.astype(np.int64), clicks.samples.numbers.astype(np.float64)
    scene = Scene(*ids.T, *numbers.T)

    def told(hours_late: float) -> float:
        found = auc(clicks.samples.labels, maker.tastes.chances(scene, (10.0 - hours_late) * HOUR_S))
        assert found is not None
        return found

    assert told(0.0) == pytest.approx(auc(clicks.samples.labels, clicks.chances), abs=1e-6)
    assert told(0.0) > 0.75
    assert told(0.0) > told(2.0) > told(6.0) > 0.5


def test_the_maker_tells_how_well_the_hidden_model_does_on_what_was_sent_lately() -> None:
    maker = ClickMaker()
    assert maker.hidden_auc is None

    for _ in range(30):
        maker.make(1000, at_s=0.0, simulated_s=0.0)

    assert maker.hidden_auc == pytest.approx(0.8, abs=0.05)


def test_fewer_items_than_categories_are_enough() -> None:
    assert set(drawn(ClickMaker(items=1), 100).samples.ids[:, 1].tolist()) == {0}


@pytest.mark.parametrize("wrong", [{"users": 0}, {"items": 0}, {"skew": -1.0}, {"drift_s": 0.0}])
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        ClickMaker(**wrong)


def test_several_thousand_clicks_a_second_take_little_of_a_core() -> None:
    maker = ClickMaker()
    maker.make(1, at_s=0.0, simulated_s=0.0)
    began_s = time.process_time()
    for slot in range(100):
        maker.make(250, at_s=0.0, simulated_s=slot * 7.2)

    assert (time.process_time() - began_s) / 5.0 < 0.25, "of a core, at 5,000 a second"
