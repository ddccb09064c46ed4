"""An object in a process of its own: what it says, what it raises, and what becomes of us when it dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from services.actuator import supervision_apart
from services.actuator.apart import Apart, NotReached
from services.actuator.lead_time import LeadTime
from services.actuator.moment import Moment
from services.actuator.supervision_apart import SupervisionApart
from services.control.errors import Fenced, PoolUnavailable, Rejected
from tests.actuator.lives_apart import Counter, crewless, slow, unreachable
from tests.actuator.rigs import ask
from tests.waiting import eventually


@pytest.fixture
def counter() -> Iterator[Apart]:
    made = Apart("the counter", Counter, 40, within_s=120.0)
    made.reach()
    yield made
    made.close()


def test_it_answers_from_another_process_and_keeps_what_it_knows(counter: Apart) -> None:
    assert (counter.call("add", 1), counter.call("add", 1, twice=True)) == (41, 43)
    assert counter.call("pid") != os.getpid()


def test_what_it_raises_is_raised_here_and_it_lives_on(counter: Apart) -> None:
    with pytest.raises(Fenced) as refused:
        counter.call("refuse")

    assert (refused.value.token, refused.value.newest) == (1, 2)
    assert str(refused.value).startswith("the pool: token 1 was superseded by 2")
    assert counter.call("add", 2) == 42


def test_a_mistake_is_raised_with_its_traceback(counter: Apart) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)the counter failed .*in err.*a mistake of its own"):
        counter.call("err")


def test_what_it_logs_is_logged_here(counter: Apart) -> None:
    with capture_logs() as logged:
        counter.call("add", 5)

    assert logged == [{"event": "added", "number": 5, "log_level": "info"}]


def test_a_process_that_dies_is_told_with_its_last_words_and_another_begins_anew(counter: Apart) -> None:
    counter.call("add", 5)
    with capture_logs() as logged, pytest.raises(PoolUnavailable, match=r"the counter was lost: .* code 1"):
        counter.call("die")

    assert [(one["event"], one["words"]) for one in logged] == [("process_lost", "the head is gone\n")]
    counter.reach()
    assert counter.call("add", 1) == 41


def test_a_process_that_was_killed_between_two_calls_is_told_too(counter: Apart) -> None:
    os.kill(counter.call("pid"), signal.SIGKILL)

    with pytest.raises(PoolUnavailable, match="code -9"):
        eventually(lambda: counter.call("add", 0) == -1, what="its end is noticed")


def test_one_that_does_not_answer_in_time_is_ended() -> None:
    counter = Apart("the counter", Counter, 40, within_s=120.0)
    counter.reach()
    first = counter.call("pid")
    counter._within_s = 0.2
    with pytest.raises(PoolUnavailable, match=r"did not answer within 0\.2 s"):
        counter.call("hang")

    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_one_that_is_slow_to_begin_is_waited_for_again() -> None:
    counter = Apart("the counter", slow)
    with pytest.raises(NotReached, match="the counter has not been reached yet"):
        counter.reach(within_s=0.05)
    counter.reach()

    assert counter.call("add", 1) == 1
    assert counter.started == 1
    counter.close()


def test_one_that_cannot_be_made_says_why_and_is_tried_again() -> None:
    counter = Apart("the counter", unreachable, within_s=120.0)
    for _ in range(2):
        with pytest.raises(PoolUnavailable, match="nobody answers"):
            counter.reach()


def test_a_connection_that_is_of_no_use_for_long_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision_apart, "_ANEW_AFTER_S", 0.0)
    supervision = SupervisionApart("the cluster", crewless, 0)
    supervision.reach()
    assert supervision.make_pass(Moment(7.0, 7.0), claim=True).failures == 1
    for _ in range(2):
        with pytest.raises(PoolUnavailable, match="nobody answers"):
            supervision.ask(ask(10))

    assert supervision._apart._child is None
    supervision.reach()
    assert supervision.make_pass(Moment(7.0, 7.0), claim=True).failures == 2, "one each"
    supervision.close()


def test_a_supervision_goes_on_counting_losses_when_its_process_is_lost() -> None:
    supervision = SupervisionApart("the cluster", crewless, 0)
    supervision.reach()
    passes = [supervision.make_pass(Moment(7.0, 7.0), claim=True) for _ in range(2)]
    assert [(state.requested, state.failures) for state in passes] == [(7, 1), (7, 2)]
    assert (supervision.active, supervision.empty) == (True, False)

    with pytest.raises(PoolUnavailable, match="the cluster was lost"):
        supervision.kill_all()

    supervision.reach()
    assert supervision.make_pass(Moment(7.0, 7.0), claim=True).failures == 3
    supervision.dismiss_all()
    assert supervision.empty
    assert supervision.lead_times() == (LeadTime("w-1", 1.0, 2.0),)
    with pytest.raises(Rejected, match="fewer than none"):
        supervision.ask(ask(-1))
    supervision.close()
