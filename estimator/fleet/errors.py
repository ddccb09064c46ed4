"""What can be wrong with a fleet.

InvalidFleet                 the fleet file, a standing or a wish cannot be: nothing is decided from it
├── GuaranteesExceedBudget   more is guaranteed than there is; the sums are shown
└── UnknownTenant            a job or tenant names a tenant that is not there
"""

from __future__ import annotations

from collections.abc import Mapping


class InvalidFleet(ValueError):
    """Something in a fleet's description cannot be; the message says what, and what to do."""


class GuaranteesExceedBudget(InvalidFleet):
    """The guarantees add up to more GPUs of a type than the budget has."""

    def __init__(self, guaranteed: Mapping[str, float], there: Mapping[str, int]) -> None:
        self.guaranteed = dict(guaranteed)
        self.there = dict(there)
        short = ", ".join(
            f"{gpus:g} of {kind or 'the only type'} against {there.get(kind, 0)}"
            for kind, gpus in sorted(guaranteed.items())
            if gpus > there.get(kind, 0)
        )
        super().__init__(f"the guaranteed GPUs exceed the budget: {short}; lower the guarantees or add nodes")


class UnknownTenant(InvalidFleet):
    """A tenant was named that the fleet does not know."""

    def __init__(self, tenant: str, by: str) -> None:
        self.tenant = tenant
        super().__init__(
            f"{by} names tenant {tenant!r}, which is not in the fleet; add it or correct the name"
        )
