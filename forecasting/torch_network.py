"""Any trained network as a fleet model, by its torch module: dearer than numpy, for comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from forecasting.batch import Batch
from forecasting.calendar import Calendar
from forecasting.features import Features
from forecasting.grid import Grid
from forecasting.heavy import heavy
from forecasting.learned import FleetModel, Quantiles, in_order
from forecasting.network import calendar_of, inputs_of, read_positions
from forecasting.network_lessons import TrainedNetwork
from forecasting.network_training import answers_of, build_module
from forecasting.patchtst import PatchTst


@dataclass(frozen=True, slots=True, eq=False)
class TorchNetwork:
    """A trained network and the module that runs it."""

    trained: TrainedNetwork
    module: Any
    calendar: Calendar
    needs: int

    @property
    def name(self) -> str:
        return self.trained.spec.name

    def quantiles(self, batch: Batch, features: Features) -> Quantiles:
        """(rows, KINDS, leads, LEVELS)"""
        spec = self.trained.spec
        times = calendar_of(batch, self.calendar, spec) if spec.calendar else None
        answers = answers_of(self.module, inputs_of(batch, features, spec), times)
        logs = read_positions(answers, spec, batch.grid)
        return in_order(features.level.to_rates(logs + self.trained.offsets))


def runnable(trained: TrainedNetwork, grid: Grid, calendar: Calendar) -> FleetModel:
    """PatchTST by numpy, everything else by torch."""
    spec = trained.spec
    if spec.architecture == "PatchTST":
        return PatchTst(spec, trained.weights, trained.offsets, spec.needs(grid))
    torch = heavy("torch")
    module = build_module(spec, grid)
    module.load_state_dict({name: torch.from_numpy(value) for name, value in trained.weights.items()})
    module.eval()
    return TorchNetwork(trained, module, calendar, spec.needs(grid))
