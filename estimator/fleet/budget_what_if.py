"""Another budget: who suffers with two nodes fewer, and who gains with more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from estimator.fleet.budget import NODE_GPUS, Budget
from estimator.fleet.errors import InvalidFleet
from estimator.fleet.plan import Allotment, FleetPlan
from estimator.fleet.sharing import NO_TENANTS, share
from estimator.fleet.standing import JobId
from estimator.fleet.tenants import Tenants
from estimator.fleet.wish import DEFAULT_RULES, ShareRules, Wish


@dataclass(frozen=True, slots=True)
class Change:
    """What another budget does to one job."""

    job: JobId
    before: Allotment
    after: Allotment

    @property
    def loss(self) -> float:
        """Satisfaction lost; less than nothing where it gains."""
        return self.before.satisfaction - self.after.satisfaction


@dataclass(frozen=True, slots=True)
class BudgetWhatIf:
    """Two budgets held against each other on the same wishes."""

    before: FleetPlan
    after: FleetPlan
    changes: tuple[Change, ...]
    """Jobs for which something changes, those that lose most first."""
    gpus: Mapping[str, int]
    """By type, what the other budget has."""


def with_other_budget(
    budget: Budget,
    other: Budget,
    wishes: Sequence[Wish],
    tenants: Tenants = NO_TENANTS,
    *,
    rules: ShareRules = DEFAULT_RULES,
) -> BudgetWhatIf:
    """The same wishes on another budget. Guarantees that it cannot hold are refused, as ever."""
    before, after = share(budget, wishes, tenants, rules=rules), share(other, wishes, tenants, rules=rules)
    pairs = zip(before.allotments, after.allotments, strict=True)
    changes = [Change(old.job, old, new) for old, new in pairs if old.given != new.given]
    changes.sort(key=lambda change: (-change.loss, -change.before.weight, change.job))
    return BudgetWhatIf(before, after, tuple(changes), other.gpus)


def with_gpus(budget: Budget, gpus: Mapping[str, int]) -> Budget:
    """The budget while there are so many GPUs of some types; the others as they are.

    Fewer are lost from the last nodes, so that what is promised on them stays promised; more come as nodes
    like the largest of their type.

    >>> with_gpus(Budget.counted({"a100": 16, "t4": 8}), {"a100": 12}).gpus
    {'a100': 12, 't4': 8}
    """
    for kind, wanted in gpus.items():
        if kind not in budget.gpus:
            raise InvalidFleet(f"there is no GPU type {kind!r} in the fleet")
        if wanted < 0:
            raise InvalidFleet(f"{wanted} GPUs of {kind!r} cannot be; it is a number from 0")
        missing = budget.gpus[kind] - wanted
        budget = _fewer(budget, kind, missing) if missing > 0 else _more(budget, kind, -missing)
    return budget


def _fewer(budget: Budget, kind: str, missing: int) -> Budget:
    lost: list[str] = []
    nodes = {node.name: node for node in budget.nodes}
    for node in reversed([node for node in budget.there if node.gpu_type == kind]):
        if node.gpus <= missing:
            lost.append(node.name)
            missing -= node.gpus
        elif missing:
            gone = replace(node, name=f"{node.name} (part)", gpus=missing, switch_gpus=0)
            nodes |= {node.name: replace(node, gpus=node.gpus - missing, switch_gpus=0), gone.name: gone}
            lost.append(gone.name)
            break
    return replace(budget, nodes=tuple(nodes.values())).losing(lost)


def _more(budget: Budget, kind: str, coming: int) -> Budget:
    size = max((node.gpus for node in budget.nodes if node.gpu_type == kind), default=NODE_GPUS)
    new = Budget.counted({kind: coming}, node_gpus=size).nodes
    return replace(budget, nodes=(*budget.nodes, *(replace(node, name=f"{node.name} (new)") for node in new)))


def without_nodes(budget: Budget, nodes: Iterable[str]) -> Budget:
    """The budget while these nodes are away. A name that is not there is a mistake, not a loss."""
    gone = list(nodes)
    budget.without(gone)
    return budget.losing(gone)
