"""Where a Ray cluster keeps what a pool was asked for: with an actor of its own."""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from services.actuator.charge import Charge, IntentMoved, NumberedCharge
from services.actuator.ray_actors import RecordKeeper
from services.actuator.ray_cluster import RayCluster
from services.control.errors import PoolUnavailable

_CHARGE = TypeAdapter(Charge)


class RayCharges:
    """The charge of one job's pool, kept by an actor."""

    def __init__(self, cluster: RayCluster, job: str) -> None:
        self._cluster = cluster
        self._job = job
        self.record = cluster.keeper(f"penstock-{job}", RecordKeeper, job, num_cpus=0, max_restarts=-1)

    def latest(self) -> NumberedCharge:
        """The charge in force; nothing and nobody for a pool that was never asked."""
        number, content = self._cluster.answer(self.record.latest.remote(), "what was asked for")
        if not content:
            return NumberedCharge(number, Charge())
        try:
            return NumberedCharge(number, _CHARGE.validate_json(content))
        except ValidationError as error:
            raise PoolUnavailable(
                f"the record of job {self._job} was written by another version of Penstock; end its workers "
                f"and the actor penstock-{self._job}"
            ) from error

    def write(self, charge: Charge, *, after: int) -> NumberedCharge:
        """Make `charge` the one in force. Raises IntentMoved when another controller came first."""
        content = _CHARGE.dump_json(charge).decode()
        if not self._cluster.answer(self.record.write.remote(content, after), "what is asked for"):
            raise IntentMoved(f"pool of job {self._job}: another controller came first")
        return NumberedCharge(after + 1, charge)
