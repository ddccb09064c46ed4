"""Many jobs, several GPU types, one budget: who gets what, and why."""

from estimator.fleet.budget import Budget, Node
from estimator.fleet.errors import GuaranteesExceedBudget, InvalidFleet, UnknownTenant
from estimator.fleet.plan import Allotment, Binding, FleetPlan, Method
from estimator.fleet.sharing import share
from estimator.fleet.standing import NOTHING, Configuration, JobId, Standing
from estimator.fleet.tenants import Tenant, Tenants
from estimator.fleet.wish import DEFAULT_RULES, ShareRules, Wish

__all__ = [
    "DEFAULT_RULES",
    "NOTHING",
    "Allotment",
    "Binding",
    "Budget",
    "Configuration",
    "FleetPlan",
    "GuaranteesExceedBudget",
    "InvalidFleet",
    "JobId",
    "Method",
    "Node",
    "ShareRules",
    "Standing",
    "Tenant",
    "Tenants",
    "UnknownTenant",
    "Wish",
    "share",
]
