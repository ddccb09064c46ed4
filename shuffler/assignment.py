"""Which worker prefers which partitions. A preference: the ledger decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Assignment:
    """Owners of each partition, several for a hot one or where workers outnumber partitions."""

    owners: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    active: tuple[str, ...] | None = None
    """The only workers that may take leases; all may when None. The others stand by."""

    def partitions_of(self, worker: str) -> tuple[int, ...]:
        """The partitions that `worker` should read first."""
        return tuple(p for p, owners in sorted(self.owners.items()) if worker in owners)

    def workers(self) -> frozenset[str]:
        """Everyone who owns something."""
        return frozenset(w for owners in self.owners.values() for w in owners)

    def stands_by(self, worker: str) -> bool:
        """Whether `worker` is to wait, loaded, until it is named.

        >>> Assignment(active=("w-1",)).stands_by("w-2"), Assignment().stands_by("w-2")
        (True, False)
        """
        return self.active is not None and worker not in self.active
