"""Every sizing rule by name, with the options it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from estimator.rules.penstock import penstock
from estimator.rules.reactive import reactive
from estimator.rules.rule import Rule

RULES: Mapping[str, Callable[..., Rule[Any]]] = {"penstock": penstock, "reactive": reactive}


class UnknownRule(ValueError):
    """No such rule, or no such option of it."""


def rule_named(name: str, options: Mapping[str, float] | None = None) -> Rule[Any]:
    """The rule called `name`, its knobs set from `options`.

    >>> rule_named("reactive", {"utilisation": 0.7}).name
    'reactive'
    """
    factory = RULES.get(name)
    if factory is None:
        raise UnknownRule(f"no rule is called {name!r}; there are {', '.join(sorted(RULES))}")
    chosen = dict(options or {})
    known = inspect.signature(factory).parameters
    unknown = sorted(chosen.keys() - known.keys())
    if unknown:
        raise UnknownRule(f"rule {name!r} has no option {', '.join(unknown)}; it takes {', '.join(known)}")
    return factory(**chosen)
