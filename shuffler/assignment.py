"""Which worker prefers which partitions. A preference: the ledger decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Assignment:
    """Owners of each partition, several for a hot one or where workers outnumber partitions."""

    owners: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def partitions_of(self, worker: str) -> tuple[int, ...]:
        """The partitions that `worker` should read first."""
        return tuple(p for p, owners in sorted(self.owners.items()) if worker in owners)

    def workers(self) -> frozenset[str]:
        """Everyone who owns something."""
        return frozenset(w for owners in self.owners.values() for w in owners)
