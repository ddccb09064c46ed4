"""The one key layout. Whoever reads or writes Redis takes the name from here; docs/store.md tells the rest.

The braces are Redis Cluster's hash tag: all keys of one job lie in one slot, so that one
script may write them together.
"""

from __future__ import annotations

from dataclasses import dataclass

LAYOUT = 1
"""Raised when a key changes its type or its meaning; docs/store.md has the rule."""

LEADER_LAYOUT = 1
"""Of the leader's keys alone. Not raised with the rest: an old and a new controller
that looked at different locks would both lead during an upgrade."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Names of all keys under one prefix.

    >>> Keys("penstock").state("clicks")
    'penstock:v1:{clicks}:state'
    """

    prefix: str

    def state(self, job: str) -> str:
        """What the job remembers from tick to tick."""
        return self._of(job, "state")

    def fence(self, job: str) -> str:
        """The newest token that has committed."""
        return self._of(job, "fence")

    def decisions(self, job: str) -> str:
        """The latest decisions."""
        return self._of(job, "decisions")

    def actuations(self, job: str) -> str:
        """The trail of resizes: what was asked for, and how it ended."""
        return self._of(job, "actuations")

    def unsettled(self, job: str) -> str:
        """The resize of which it is not known yet how it ended."""
        return self._of(job, "unsettled")

    def assignment(self, job: str) -> str:
        """Which worker should read which partitions first."""
        return self._of(job, "assignment")

    def workers(self, job: str) -> str:
        """Who has reported lately."""
        return self._of(job, "workers")

    def report(self, job: str, worker: str) -> str:
        """What one worker said of itself last."""
        return self._of(job, f"report:{worker}")

    def ledger(self, job: str, part: str = "") -> str:
        """The ledger of leases, or one `part` of it.

        >>> Keys("penstock").ledger("clicks", "ranges")
        'penstock:v1:{clicks}:ledger:ranges'
        """
        return self._of(job, f"ledger:{part}" if part else "ledger")

    def traffic(self, job: str, part: str = "") -> str:
        """Past arrival rates, or one `part` of them: a resolution and a stretch of time.

        >>> Keys("penstock").traffic("clicks", "60:13888")
        'penstock:v1:{clicks}:traffic:60:13888'
        """
        return self._of(job, f"traffic:{part}" if part else "traffic")

    def shards(self, job: str) -> str:
        """Where the shards of the parameter server are."""
        return self._of(job, "shards")

    def slots(self, job: str) -> str:
        """Which slot of ids lies on which shard."""
        return self._of(job, "slots")

    def wish(self, job: str) -> str:
        """The size that KEDA is told."""
        return self._of(job, "wish")

    def snapshot(self, job: str) -> str:
        """What the leader knows of the job, for the API of the others."""
        return self._of(job, "snapshot")

    def jobs(self) -> str:
        """The definitions of all jobs."""
        return self._of("_fleet", "jobs")

    def jobs_version(self) -> str:
        """Grows with every change of a definition."""
        return self._of("_fleet", "jobs:version")

    def tokens(self) -> str:
        """Who may use the API; hashes of the tokens, not the tokens."""
        return self._of("_fleet", "tokens")

    def audit(self) -> str:
        """Who changed what, from what to what."""
        return self._of("_fleet", "audit")

    def events(self) -> str:
        """What happened lately, for whoever watches."""
        return self._of("_fleet", "events")

    def leader(self) -> str:
        """Who leads, for as long as the lease lasts."""
        return f"{self.prefix}:v{LEADER_LAYOUT}:{{_leader}}:lock"

    def leader_token(self) -> str:
        """The newest fencing token given out."""
        return f"{self.prefix}:v{LEADER_LAYOUT}:{{_leader}}:token"

    def _of(self, job: str, name: str) -> str:
        if not job or "{" in job or "}" in job:
            raise ValueError(f"job {job!r} cannot name a key; it must be non-empty and without braces")
        return f"{self.prefix}:v{LAYOUT}:{{{job}}}:{name}"
