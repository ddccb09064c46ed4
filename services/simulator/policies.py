"""Every policy by name: its rule, its options, and the knob that its users turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from estimator.rules import Rule, UnknownRule, rule_named
from services.simulator.errors import UnknownPolicy
from services.simulator.families import fewest_workers, true_curve
from services.simulator.plant import Plant
from services.simulator.run import Course

Options = Mapping[str, float]

UTILISATIONS: tuple[Options, ...] = tuple({"utilisation": u} for u in (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95))
LATE_SHARES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """A rule with the options that make it this policy, and the settings swept for its frontier."""

    rule: str
    sweep: tuple[Options, ...]
    options: Options = field(default_factory=dict)


KINDS: Mapping[str, PolicyKind] = {
    "penstock": PolicyKind(
        "penstock",
        tuple({"late_share_target": share} for share in LATE_SHARES),
        {"explains": 0.0},  # it decides the same; nobody reads what other traffic would have changed
    ),
    "kale": PolicyKind(
        "kale",
        tuple(
            {"smooth_s": smooth, "hold_s": hold}
            for smooth in (300.0, 900.0, 1800.0)
            for hold in (0.0, 300.0, 600.0)
        ),
    ),
    "reactive": PolicyKind("reactive", UTILISATIONS),
    "hpa": PolicyKind("hpa", tuple({"target": t} for t in (0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9))),
    "keda": PolicyKind(
        "keda",
        tuple({"lag_threshold_s": s} for s in (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0)),
        {"lag_threshold_s": 10.0},
    ),
    "flink": PolicyKind("flink", UTILISATIONS),
    "autopilot": PolicyKind("autopilot", UTILISATIONS),
    "autopilot-scaled": PolicyKind("autopilot", UTILISATIONS, {"horizon_s": 3600.0, "hold_s": 3600.0}),
    "madu": PolicyKind(
        "madu", tuple({"k": k, "utilisation": u} for k in (0.0, 1.0, 2.0) for u in (0.7, 0.8, 0.9, 0.95))
    ),
    "static-max": PolicyKind("static-max", UTILISATIONS),
    "static-mean": PolicyKind("static-mean", UTILISATIONS),
}
"""In the order in which tables show them."""


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """A policy with its options, under the label that figures carry."""

    label: str
    kind: str
    options: Options = field(default_factory=dict)
    forecaster: str = ""
    """Whose forecasts it is given; the contest's when empty."""

    @property
    def name(self) -> str:
        """What its points on a frontier have in common: the policy, with a forecaster of its own."""
        return f"{self.kind}@{self.forecaster}" if self.forecaster else self.kind

    def turned(self, setting: Options) -> PolicyChoice:
        """The same policy with its knob at `setting`."""
        shown = ",".join(f"{name}={value:g}" for name, value in setting.items())
        return replace(self, label=f"{self.name}:{shown}", options={**self.options, **setting})

    @property
    def sweep(self) -> tuple[PolicyChoice, ...]:
        """The policy at every setting of its knob."""
        return tuple(self.turned(setting) for setting in KINDS[self.kind].sweep)


def choose(text: str) -> PolicyChoice:
    """The policy that `NAME` or `NAME:option=value,...` asks for; `NAME@FORECASTER` gives it one of its own.

    >>> choose("hpa:target=0.6").options
    {'target': 0.6}
    >>> choose("kale@fedformer:hold_s=0").forecaster
    'fedformer'
    """
    head, _, settings = text.partition(":")
    name, at, forecaster = head.partition("@")
    if name not in KINDS:
        raise UnknownPolicy(f"no policy is called {name!r}; there are {', '.join(KINDS)}")
    if at and not forecaster:
        raise UnknownPolicy(f"{text!r}: a forecaster's name is missing after the @")
    options: dict[str, float] = {}
    for setting in filter(None, settings.split(",")):
        option, equals, value = setting.partition("=")
        try:
            options[option.strip()] = float(value)
        except ValueError:
            raise UnknownPolicy(f"{text!r}: {setting!r} is not option=number") from None
        if not equals:
            raise UnknownPolicy(f"{text!r}: {setting!r} is not option=number")
    return PolicyChoice(text, name, options, forecaster)


def every_policy() -> tuple[PolicyChoice, ...]:
    """All of them, at their defaults."""
    return tuple(choose(name) for name in KINDS)


def told(choice: PolicyChoice, plant: Plant) -> Plant:
    """The plant as its operator describes it to this policy: the error budget is one of its knobs."""
    target = choice.options.get("late_share_target")
    return plant if target is None else plant.model_copy(update={"late_share_target": target})


def rule_of(choice: PolicyChoice, plant: Plant, course: Course) -> Rule[Any]:
    """The rule behind a choice, with what this plant makes of its options."""
    kind = KINDS[choice.kind]
    options = {**kind.options, **choice.options}
    options.pop("late_share_target", None)
    if "lag_threshold_s" in options:
        # KEDA counts samples; told in seconds of one worker, a threshold fits every plant.
        options["lag_threshold"] = max(1.0, options.pop("lag_threshold_s") * plant.rate_per_worker)
    if kind.rule in ("static-max", "static-mean"):
        options = _known_beforehand(kind.rule, options, plant, course)
    try:
        return rule_named(kind.rule, options)
    except UnknownRule as error:
        raise UnknownPolicy(f"{choice.label}: {error}") from error


def _known_beforehand(rule: str, options: dict[str, float], plant: Plant, course: Course) -> dict[str, float]:
    """A static pool is sized from the traffic to come and the true curve: for scale only.

    For the peak of the warm-up that it runs through as well: else it would start with that one's backlog.
    """
    rate = float(course.arrivals.minutes.max() if rule == "static-max" else course.scored.minutes.mean())
    utilisation = options.get("utilisation", 0.8 if rule == "static-max" else 1.0)
    curve = true_curve(plant, plant.most_workers)
    workers = int(fewest_workers(curve, rate / utilisation, at_least=max(plant.workers_min, 1)))
    return {**options, "workers": float(workers)}
