"""How fast the simulator is: `python -m benchmarks.simulator_speed`."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from benchmarks.plants import PLANTS
from services.simulator.course import course_of
from services.simulator.policies import choose, rule_of
from services.simulator.run import Course, simulate
from services.simulator.synthetic import synthetic_traces
from services.simulator.world import World

POLICIES = ("static-max", "flink", "hpa", "keda", "reactive")
PLANT_NAMES = ("hot-join", "cooperative")


def main() -> None:
    """CPU seconds a simulated day: whole runs through the real loop, then the bare world both ways."""
    if "--bare" in sys.argv:
        _bare(seconds=600)
        return
    for name in PLANT_NAMES:
        plant, course = PLANTS[name], _course(name)
        days = len(course.arrivals.per_second) / 86_400
        simulate(rule_of(choose("static-max"), plant, course), plant, course, seed=1)  # compiles
        for policy in POLICIES:
            began = time.process_time()
            simulate(rule_of(choose(policy), plant, course), plant, course, seed=1)
            print(f"{name:12} {policy:12} {(time.process_time() - began) / days:7.3f} s a day")
    print("the bare world, compiled:")
    _bare(seconds=86_400)
    print("the bare world, plain Python:", flush=True)
    plain = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-m", "benchmarks.simulator_speed", "--bare"], env=plain, check=True)


def _course(name: str) -> Course:
    return course_of(synthetic_traces(days=9)[0], PLANTS[name], seed=1, days=1)


def _bare(*, seconds: int) -> None:
    """CPU seconds a day of a world that is left alone, measured over `seconds` of it."""
    for name in PLANT_NAMES:
        world = World(PLANTS[name], _course(name).arrivals, seed=1)
        world.populate(12)
        world.advance(1)
        began = time.process_time()
        world.advance(seconds)
        print(f"{name:12} {(time.process_time() - began) * 86_400 / seconds:7.3f} s a day")


if __name__ == "__main__":
    main()
