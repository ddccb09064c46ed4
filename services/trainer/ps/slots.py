"""Which slots a shard serves, and one slot's way to another shard. Knows no sockets and no clock.

A slot is *served*; or *frozen*, while its rows are on their way to another shard; or *leaving*, once the
other has them and until the store says so; or another's. Only the shard that served a slot writes in the
store that another one has it: so a slot never has two owners, and what one of them acknowledged is in
the rows that the other got. Frozen for too long it is served again, and so it is when the process that has
its rows was superseded before the store named it; else, leaving, it can only leave.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.samples.layout import Ids
from services.trainer.ps.placement import SLOTS, SlotMap, slots_of

FROZEN_S: Final = 10.0
"""A slot whose new shard is not heard of for so long is served again."""
_FADE: Final = 0.5


class Heir(NamedTuple):
    """Whom a slot is given to: a shard, and the process of it that has the rows."""

    shard: int
    epoch: int = 0


class SlotDesk:
    """The slots of one shard. Every slot is served where nobody says otherwise."""

    def __init__(self) -> None:
        self.served: NDArray[np.bool_] = np.ones(SLOTS, bool)
        self.asked: NDArray[np.float64] = np.zeros(SLOTS)
        """Keys asked for by slot, older ones fading: what makes a shard busy."""
        self.leaving: dict[int, Heir] = {}
        """Slots that are to be another shard's, and whose: until the store has it, nobody serves them."""
        self.coming: set[int] = set()
        """Slots whose rows are here, and which another shard serves still."""
        self._frozen: dict[int, tuple[int, float]] = {}

    def settle(self, slots: SlotMap, shard: int) -> None:
        """Serve what the map gives to `shard`, and nothing else."""
        self.served = slots.shard_of == shard

    def serves(self, keys: Ids, *, now_s: float) -> bool:
        """Whether all keys may be asked for here now."""
        self._thaw(now_s)
        slots = slots_of(keys)
        if not self.served[slots].all():
            return False
        self.asked += np.bincount(slots, minlength=SLOTS)
        return True

    def freeze(self, slot: int, shard: int, *, now_s: float) -> bool:
        """Nobody may ask for it until it is `shard`'s or `FROZEN_S` have passed; False if it is not here."""
        self._thaw(now_s)
        if not self.served[slot]:
            return False
        self.served[slot] = False
        self._frozen[slot] = (shard, now_s + FROZEN_S)
        return True

    def release(self, slot: int, heir: Heir, *, now_s: float) -> bool:
        """Whether that shard may have it: it was frozen for it, and still is. There is no way back while
        the process lives that has its rows.

        What was given away is not remembered here, only in the store: it may have come back since, and been
        given to nobody.
        """
        self._thaw(now_s)
        if self._frozen.get(slot, (None,))[0] == heir.shard:
            del self._frozen[slot]
            self.leaving[slot] = heir
        known = self.leaving.get(slot)
        if known is None or known.shard != heir.shard:
            return False
        self.leaving[slot] = max(known, heir)  # a process that came after the one that asked first
        return True

    def keep(self, slot: int) -> None:
        """Whoever was to have it is no more, and the store names this shard: it is served again."""
        del self.leaving[slot]
        self.served[slot] = True

    def held(self) -> NDArray[np.bool_]:
        """Whose rows are here, whoever serves them."""
        held = self.served.copy()
        held[[*self._frozen, *self.leaving, *self.coming]] = True
        return held

    def gave(self, slot: int) -> None:
        """The store names the other shard now."""
        del self.leaving[slot]
        self.asked[slot] = 0.0  # it would be taken for a burden of this shard, and be asked for here

    def take(self, slot: int) -> None:
        """It is here now."""
        self.served[slot] = True
        self.coming.discard(slot)

    def fade(self) -> None:
        """What was asked for long ago counts less."""
        self.asked *= _FADE

    def _thaw(self, now_s: float) -> None:
        for slot in [slot for slot, (_, until_s) in self._frozen.items() if now_s >= until_s]:
            del self._frozen[slot]
            self.served[slot] = True
