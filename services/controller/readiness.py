"""Whether a controller can do its work, and what keeps it from it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Readiness:
    """`dependencies` maps each to `ok` or to what is wrong with it. A follower is ready."""

    leading: bool
    dependencies: dict[str, str]

    @property
    def ready(self) -> bool:
        """Nothing is in the way."""
        return all(state == "ok" for state in self.dependencies.values())
