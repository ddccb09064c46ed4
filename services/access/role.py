"""Roles: what a token may do. Each may do all that the one before may."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a token may do.

    >>> Role.OPERATOR.allows(Role.VIEWER), Role.OPERATOR.allows(Role.ADMIN)
    (True, False)
    """

    VIEWER = "viewer"
    """Sees everything, changes nothing."""
    OPERATOR = "operator"
    """Tunes SLOs; overrides, pauses, resumes; switches between recommend and act."""
    ADMIN = "admin"
    """Makes, replaces and deletes jobs; reads the audit log."""

    def allows(self, wanted: Role) -> bool:
        """Whether this role may do what `wanted` may."""
        order = list(Role)
        return order.index(self) >= order.index(wanted)
