"""What a worker says of itself is what happened, idle or not, heard or not."""

from __future__ import annotations

from threading import Event

from structlog.testing import capture_logs

from services.control.errors import StateUnavailable
from services.control.types import GpuLoad, WorkerReport
from services.trainer.telemetry import Reporter, Tally
from tests.waiting import eventually


class Watch:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def tally_on(watch: Watch) -> Tally:
    return Tally("w", now_s=lambda: 1000.0 + watch.now, elapsed_s=watch)


def test_busy_is_the_time_in_steps_and_not_the_wait_between_them() -> None:
    watch = Watch()
    tally = tally_on(watch)
    for _ in range(2):
        tally.step_began()
        watch.now += 0.25
        tally.step_ended(50)
        watch.now += 0.75

    assert tally.report() == WorkerReport(
        "w", 1002.0, trained=100, busy=0.25, rate_per_busy_s=200.0, gpu=GpuLoad(0.25)
    )


def test_a_step_across_two_windows_is_busy_in_both() -> None:
    watch = Watch()
    tally = tally_on(watch)
    watch.now = 0.5
    tally.step_began()
    watch.now = 1.0
    first = tally.report()
    watch.now = 1.25
    tally.step_ended(30)
    watch.now = 2.0
    second = tally.report()

    assert (first.busy, first.trained, first.rate_per_busy_s) == (0.5, 0, 0.0)
    assert (second.busy, second.trained, second.rate_per_busy_s) == (0.25, 30, 120.0)


def test_an_idle_worker_says_so() -> None:
    watch = Watch()
    tally = tally_on(watch)
    watch.now = 1.0

    assert tally.report() == WorkerReport(
        "w", 1001.0, trained=0, busy=0.0, rate_per_busy_s=0.0, gpu=GpuLoad(0.0)
    )


class Sink:
    """Remembers reports; refuses them while `away`."""

    def __init__(self) -> None:
        self.reports: list[WorkerReport] = []
        self.forgotten = Event()
        self.refused = 0
        self.away = False

    def write(self, report: WorkerReport) -> None:
        if self.away:
            self.refused += 1
            raise StateUnavailable("Redis at nowhere")
        self.reports.append(report)

    def forget(self) -> None:
        self.forgotten.set()


def test_reports_come_by_themselves_and_the_last_one_at_the_end() -> None:
    sink, tally = Sink(), Tally("w")
    with Reporter(tally, sink, every_s=0.01):
        eventually(lambda: len(sink.reports) >= 2, what="two reports")
        tally.step_began()
        tally.step_ended(7)

    assert sink.reports[-1].trained == 7
    assert sink.forgotten.is_set()


def test_a_worker_that_is_not_heard_says_so_once_and_goes_on() -> None:
    sink = Sink()
    sink.away = True
    with capture_logs() as logs, Reporter(Tally("w"), sink, every_s=0.01):
        eventually(lambda: sink.refused >= 3, what="three reports refused")
        sink.away = False
        eventually(lambda: sink.reports, what="a report")

    assert [log["event"] for log in logs] == ["server_lost", "server_back"]
