"""When there will not be enough, as forecast."""

from __future__ import annotations

from estimator.fleet import Budget, Standing
from estimator.fleet.contention import contention_ahead
from estimator.fleet.future import Outlook

CURVE = tuple(100.0 * workers for workers in range(11))


def test_the_first_hour_in_which_more_is_wished_than_there_is_is_named() -> None:
    ads = Outlook(Standing("ads"), {"a100": CURVE}, (150.0, 250.0, 550.0, 250.0))
    feed = Outlook(Standing("feed", gpus_per_worker=2), {"a100": CURVE}, (90.0, 90.0, 190.0, 90.0))
    calm = Outlook(Standing("calm"), {"t4": CURVE}, (50.0,))

    a100, t4 = contention_ahead(Budget.counted({"a100": 8, "t4": 2}), [ads, feed, calm], steps=4)

    assert a100.wished == (4.0, 5.0, 10.0, 5.0)
    assert a100.short_from == 2
    assert t4.wished == (1.0,) * 4
    assert t4.short_from is None


def test_a_demand_that_no_number_of_workers_carries_wishes_for_what_helps() -> None:
    flat = Outlook(Standing("flat"), {"a100": (0.0, 100.0, 180.0, 180.0, 170.0)}, (500.0, 0.0))

    (a100,) = contention_ahead(Budget.counted({"a100": 8}), [flat], steps=2)

    assert a100.wished == (2.0, 0.0)
