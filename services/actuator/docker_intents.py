"""What a Docker pool was asked for, kept in the engine itself.

The engine has no store of its own, but volumes have names and labels, and making one of a name
that is there already changes nothing and shows the old labels. So each intent is an empty volume
with the next number: whoever makes a number first has written it, and everyone else sees that.
Files of a directory that controllers share can take the volumes' place (`docker_intent_files`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from services.actuator.charge import Charge, IntentMoved, NumberedCharge
from services.control.errors import PoolUnavailable

JOB, KIND, NUMBER, NONCE, CONTENT = (
    f"penstock.{name}" for name in ("job", "kind", "number", "nonce", "intent")
)


class Volumes(Protocol):
    """Named things with labels, as an engine's volumes are."""

    def volumes(self, labels: Mapping[str, str]) -> dict[str, Mapping[str, str]]:
        """Labels by name, of all with these labels."""
        ...

    def create_volume(self, name: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        """Make one. One of that name that is there already stays as it is: its labels come back."""
        ...

    def remove_volume(self, name: str) -> None:
        """Nothing happens to one that is gone."""
        ...


_CHARGE = TypeAdapter(Charge)


class DockerIntents:
    """Reads and writes the charge of one job's pool; a write fails when another came first."""

    def __init__(self, kept: Volumes, job: str) -> None:
        self._kept = kept
        self._job = job
        self._labels = {JOB: job, KIND: "intent"}

    def latest(self) -> NumberedCharge:
        """The charge in force; nothing and nobody for a pool that was never asked."""
        written = self._numbers()
        if not written:
            return NumberedCharge(0, Charge())
        number = max(written)
        return NumberedCharge(number, self._decode(written[number]))

    def write(self, charge: Charge, *, after: int) -> NumberedCharge:
        """Make `charge` the one in force, if that which was in force had the number `after`.

        Raises IntentMoved. An old number can be made anew once it was cleared away, so being first
        is not enough: ours must also be the highest afterwards.
        """
        number, nonce = after + 1, uuid4().hex
        content = _CHARGE.dump_json(charge).decode()
        labels = {**self._labels, NUMBER: str(number), NONCE: nonce, CONTENT: content}
        name = f"penstock-{self._job}-intent-{number}"
        if self._kept.create_volume(name, labels).get(NONCE) != nonce:
            raise IntentMoved(f"pool of job {self._job}: another controller came first")
        written = self._numbers()
        if max(written) != number:
            self._kept.remove_volume(name)
            raise IntentMoved(f"pool of job {self._job}: another controller came first")
        for old in written.keys() - {number}:
            self._kept.remove_volume(f"penstock-{self._job}-intent-{old}")
        return NumberedCharge(number, charge)

    def _numbers(self) -> dict[int, Mapping[str, str]]:
        return {int(labels[NUMBER]): labels for labels in self._kept.volumes(self._labels).values()}

    def _decode(self, labels: Mapping[str, str]) -> Charge:
        try:
            return _CHARGE.validate_json(labels[CONTENT])
        except ValidationError as error:
            volume = f"penstock-{self._job}-intent-{labels[NUMBER]}"
            raise PoolUnavailable(
                f"volume {volume} was written by another version of Penstock; end the workers of job "
                f"{self._job} and remove it"
            ) from error
