"""Every sizing rule by name, with the options it takes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from estimator.rules.autopilot import autopilot
from estimator.rules.flink import flink
from estimator.rules.hpa import hpa
from estimator.rules.kale import kale
from estimator.rules.keda import keda
from estimator.rules.madu import madu
from estimator.rules.penstock import penstock
from estimator.rules.reactive import reactive
from estimator.rules.rule import Rule
from estimator.rules.static import static_max, static_mean
from estimator.rules.tempo import OPTION, own_time, paced

RULES: Mapping[str, Callable[..., Rule[Any]]] = {
    "penstock": penstock,
    "reactive": reactive,
    "hpa": hpa,
    "keda": keda,
    "flink": flink,
    "autopilot": autopilot,
    "madu": madu,
    "kale": kale,
    "static-max": static_max,
    "static-mean": static_mean,
}


MORE_THAN_ZERO = frozenset({"utilisation", "target", "lag_threshold", "catch_up_s", "season_s"})
"""Options that something is divided by."""
AT_MOST_ONE = frozenset({"quantile"})


class UnknownRule(ValueError):
    """No such rule, no such option of it, or not with this value."""


def takes(name: str, option: str) -> bool:
    """Whether the rule called `name` has this option.

    >>> takes("penstock", "season_s"), takes("reactive", "season_s")
    (True, False)
    """
    return name in RULES and option in inspect.signature(RULES[name]).parameters


def rule_named(name: str, options: Mapping[str, float] | None = None) -> Rule[Any]:
    """The rule called `name`, its knobs set from `options`.

    Every rule takes `speed_up` besides: where a day is played in minutes, its own times shrink
    likewise (see tempo.py). Options are told in the time that is played.

    >>> rule_named("reactive", {"utilisation": 0.7}).name
    'reactive'
    """
    factory = RULES.get(name)
    if factory is None:
        raise UnknownRule(f"no rule is called {name!r}; there are {', '.join(sorted(RULES))}")
    chosen = dict(options or {})
    speed_up = chosen.pop(OPTION, 1.0)
    if not (math.isfinite(speed_up) and speed_up > 0):
        raise UnknownRule(f"rule {name!r}: {OPTION} is {speed_up}; it must be a positive number")
    known = inspect.signature(factory).parameters
    unknown = sorted(chosen.keys() - known.keys())
    if unknown:
        raise UnknownRule(f"rule {name!r} has no option {', '.join(unknown)}; it takes {', '.join(known)}")
    for option, value in chosen.items():
        _check(name, option, value)
    return paced(factory(**own_time(chosen, speed_up)), speed_up)


def _check(rule: str, option: str, value: float) -> None:
    """Raises UnknownRule for a number that would break the rule at every tick."""
    sound = math.isfinite(value) and value >= 0
    if option in MORE_THAN_ZERO:
        sound, wanted = sound and value > 0, "a positive number"
    elif option in AT_MOST_ONE:
        sound, wanted = sound and value <= 1, "between 0 and 1"
    else:
        wanted = "a number of at least 0"
    if not sound:
        raise UnknownRule(f"rule {rule!r}: {option} is {value}; it must be {wanted}")
