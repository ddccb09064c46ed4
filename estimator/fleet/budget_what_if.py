"""Another budget: who suffers with two nodes fewer, and who gains with more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from estimator.fleet.budget import Budget
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
    return BudgetWhatIf(before, after, tuple(changes))


def with_nodes_fewer(
    budget: Budget,
    nodes: Iterable[str],
    wishes: Sequence[Wish],
    tenants: Tenants = NO_TENANTS,
    *,
    rules: ShareRules = DEFAULT_RULES,
) -> BudgetWhatIf:
    """Who suffers while these nodes are away."""
    gone = list(nodes)
    budget.without(gone)  # a name that is not there is a mistake, not a loss
    return with_other_budget(budget, budget.losing(gone), wishes, tenants, rules=rules)
