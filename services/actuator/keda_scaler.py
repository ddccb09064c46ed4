"""What KEDA asks, answered from the wishes. Any replica answers alike."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from services.actuator.wish import Wish, Wishes
from services.control.errors import ControlError

METRIC = "penstock-workers"
_LOOK_EVERY_S = 0.5


class Refused(Exception):
    """KEDA is not told a size; its `fallback` takes over when this lasts."""


class NotAllowed(Refused):
    """The shared secret is missing or wrong."""


@dataclass(frozen=True, slots=True)
class KedaScaler:
    """The four questions of KEDA. `secret`, unless it is empty, must be in the trigger's metadata."""

    wishes: Wishes
    secret: str = ""

    async def size(self, name: str, metadata: Mapping[str, str]) -> int:
        """The workers that the job should have: the metadata's `job`, else that of the object's name.

        Raises Refused: no answer is better than a made-up one, which KEDA would act on.
        """
        return (await self._wish(name, metadata)).workers

    async def active(self, name: str, metadata: Mapping[str, str]) -> bool:
        """Whether there should be any worker. Raises Refused."""
        return await self.size(name, metadata) > 0

    async def activity(self, name: str, metadata: Mapping[str, str]) -> AsyncIterator[bool]:
        """`active` now and whenever it changes, for ever. Raises Refused."""
        told: bool | None = None
        while True:
            active = await self.active(name, metadata)
            if active is not told:
                yield active
                told = active
            await asyncio.sleep(_LOOK_EVERY_S)

    def admit(self, metadata: Mapping[str, str]) -> None:
        """Raises NotAllowed. KEDA resolves `secretFromEnv` to the variable's value, and keeps its name."""
        given = (metadata.get("secret") or metadata.get("secretFromEnv") or "").strip()  # as of a file
        if self.secret and not hmac.compare_digest(given.encode(), self.secret.encode()):
            raise NotAllowed("the trigger's metadata has no `secret` or `secretFromEnv`, or a wrong one")

    async def _wish(self, name: str, metadata: Mapping[str, str]) -> Wish:
        self.admit(metadata)
        job = metadata.get("job") or name
        try:
            wish = await self.wishes.latest(job)
        except ControlError as error:
            raise Refused(str(error)) from error
        if wish is None:
            raise Refused(f"no size was decided for job {job} yet; is its pool.kind keda?")
        return wish
