"""The live view shows traffic, forecast, pool, lag and the last decision."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from services.control.decide import decide
from services.control.errors import TrafficUnavailable
from services.control.loop import Tick
from services.control.training_quality import TrainingQuality
from services.control.types import ControlState, WorkerReport
from services.demo.view import LiveView
from tests.control.worlds import a_policy, a_pool, an_observation


def shown(view: LiveView) -> str:
    out = StringIO()
    Console(width=120, file=out).print(view)
    return out.getvalue()


def test_everything_a_person_wants_to_see_is_there() -> None:
    view = LiveView(slo_s=10.0, address="http://127.0.0.1:1", title="demo")
    seen = an_observation(rate=450, coming=600, lag=900, pool=a_pool(3, ready=2))

    view.told(Tick("clicks", 1.0, seen, decide(seen, ControlState(planned=3), a_policy())))

    text = shown(view)
    for words in (
        "450/s",
        "up to 600/s",
        "flat forecast",
        "planned 6",
        "requested 3",
        "ready 2",
        "2.0 s of 10 s",
    ):
        assert words in text
    assert "forecast_rise" in text
    assert "3 → 6" in text


def test_before_the_first_tick_it_says_what_it_waits_for() -> None:
    view = LiveView(slo_s=10.0, address="", title="demo")
    assert "starting" in shown(view)

    view.told(Tick("clicks", 1.0, error=TrafficUnavailable("no broker answers")))

    assert "no broker answers" in shown(view)


def test_how_good_the_model_is_is_shown_where_workers_tell() -> None:
    view = LiveView(slo_s=10.0, address="", title="demo")
    quality = TrainingQuality(100, 0.75, 0.5, 3.0)
    report = WorkerReport("w-0", 0.0, trained=1, busy=0.5, rate_per_busy_s=100.0, quality=quality)
    seen = an_observation(rate=450, reports=(report,))

    view.told(Tick("clicks", 1.0, seen, decide(seen, ControlState(planned=3), a_policy())))

    assert "AUC 0.750  trained 3.0 s after the click" in shown(view)
