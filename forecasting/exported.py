"""Any network as an exported program: torch runs it, neuralforecast is not needed."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecasting.batch import Batch
from forecasting.calendar import Calendar
from forecasting.features import Features
from forecasting.forecast import LEVELS
from forecasting.heavy import heavy
from forecasting.learned import Quantiles, in_order
from forecasting.network import NetworkSpec, calendar_of, inputs_of, read_positions
from forecasting.network_training import EXPORTED_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class ExportedNetwork:
    """Dearer than numpy's PatchTST; served from the same background thread."""

    spec: NetworkSpec
    program: Any
    offsets: NDArray[np.float64]
    needs: int
    calendar: Calendar

    @classmethod
    def from_bytes(
        cls,
        spec: NetworkSpec,
        program: bytes,
        offsets: NDArray[np.float64],
        *,
        needs: int,
        calendar: Calendar,
    ) -> ExportedNetwork:
        """Raises MissingPackage where torch is not installed."""
        loaded = heavy("torch").export.load(io.BytesIO(program))
        return cls(spec, loaded.module(), offsets, needs, calendar)

    @property
    def name(self) -> str:
        return self.spec.name

    def quantiles(self, batch: Batch, features: Features) -> Quantiles:
        """(rows, KINDS, leads, LEVELS)"""
        inputs = inputs_of(batch, features, self.spec)
        times = calendar_of(batch, self.calendar, self.spec)
        answers = [
            self._answer(inputs[at : at + EXPORTED_ROWS], times[at : at + EXPORTED_ROWS])
            for at in range(0, len(inputs), EXPORTED_ROWS)
        ]
        logs = read_positions(np.concatenate(answers), self.spec, batch.grid)
        return in_order(features.level.to_rates(logs + self.offsets))

    def _answer(self, inputs: NDArray[np.float32], times: NDArray[np.float32]) -> NDArray[np.float64]:
        """The last piece is filled up: the program takes batches of one size."""
        torch = heavy("torch")
        rows = len(inputs)
        fill = [(0, EXPORTED_ROWS - rows), (0, 0)]
        full = torch.from_numpy(np.pad(inputs, fill, mode="edge"))
        full_times = torch.from_numpy(np.pad(times, [*fill, (0, 0)], mode="edge"))
        with torch.no_grad():
            answer = self.program(full, full_times).numpy()
        return np.asarray(answer[:rows].reshape(rows, -1, len(LEVELS)), dtype=np.float64)
