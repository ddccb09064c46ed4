"""Who is asked to leave hears of it, whatever its main thread does, and nobody else does."""

from __future__ import annotations

import signal
import subprocess
import sys

SCRIPT = """
import os, signal, threading
from services.trainer.departure import Departure

told = threading.Event()
with Departure() as departure:
    departure.begins_with(told.set)
    {body}
print("left", departure.asked.is_set(), flush=True)
{then}
"""


def outcome(body: str, *, then: str = "") -> tuple[str, int]:
    """What a process that does this within its departure, and `then` after it, says, and how it ends."""
    script = SCRIPT.format(body=body.strip().replace("\n", "\n    "), then=then)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.strip() or done.stderr, done.returncode


def test_it_is_heard_while_the_main_thread_is_in_a_call_that_does_not_return() -> None:
    hung = """
import ctypes
mutex, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
departure.begins_with(lambda: (print("told", flush=True), os._exit(7)))
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
for _ in range(2):
    libc.pthread_mutex_lock(mutex)
"""

    assert outcome(hung) == ("told", 7)


def test_a_process_forked_meanwhile_dies_of_its_own_signal_and_its_parent_goes_on() -> None:
    """As a data loader's workers, which are ended by one."""
    forked = """
child = os.fork()
if child == 0:
    signal.pause()
os.kill(child, signal.SIGTERM)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), told.wait(0.3))
"""

    assert outcome(forked) == ("-15 False\nleft False", 0)


def test_leaving_does_not_wait_for_a_process_forked_meanwhile() -> None:
    forked = """
child = os.fork()
if child == 0:
    signal.pause()
"""

    assert outcome(forked, then="os.kill(child, signal.SIGKILL)") == ("left False", 0)


def test_a_second_signal_ends_it_at_once() -> None:
    hurried = """
os.kill(os.getpid(), signal.SIGTERM)
assert told.wait(10)
os.kill(os.getpid(), signal.SIGINT)
signal.pause()
"""

    assert outcome(hurried)[1] == 128 + signal.SIGINT


def test_afterwards_signals_are_as_they_were() -> None:
    asked = """
os.kill(os.getpid(), signal.SIGTERM)
assert told.wait(10)
"""

    assert outcome(asked) == ("left True", 0)
    assert outcome(asked, then="os.kill(os.getpid(), signal.SIGTERM)") == ("left True", -signal.SIGTERM)
