"""Train a network of neuralforecast by its bare module; PatchTST by numpy (`patchtst_training`).

The package's own loop rebuilds all windows every step and runs at a constant
learning rate, which ruins these networks; its modules are sound. So: our windows, our
weights, the pinball loss on the very targets, cosine decay, clipped gradients
(`network_descent`).
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecasting.calendar import Calendar
from forecasting.forecast import LEVELS
from forecasting.grid import Grid
from forecasting.heavy import heavy
from forecasting.history import Rates
from forecasting.learned import Lessons
from forecasting.network import CALENDAR_COLUMNS, NetworkSpec, Weights, read_positions
from forecasting.network_descent import answer, descend
from forecasting.network_lessons import Effort, TrainedNetwork, network_lessons, offsets_for
from forecasting.patchtst_training import train_patchtst
from forecasting.seq2seq import seq2seq_module

EXPORTED_ROWS = 64
"""Rows of one call of an exported network."""


def build_module(spec: NetworkSpec, grid: Grid) -> Any:
    """The bare torch module."""
    positions = spec.positions(grid)
    if spec.architecture == "Seq2Seq":
        return seq2seq_module(positions, dict(spec.options))
    architectures = heavy("neuralforecast.models")
    loss = heavy("neuralforecast.losses.pytorch").MQLoss(quantiles=list(LEVELS))
    known = {name.lower(): name for name in architectures.__all__}
    if spec.name not in known:
        raise ValueError(
            f"neuralforecast has no architecture {spec.architecture!r}; it has {', '.join(sorted(known))}"
        )
    options: dict[str, Any] = dict(spec.options)
    if spec.calendar:
        options["futr_exog_list"] = list(CALENDAR_COLUMNS)
    return getattr(architectures, known[spec.name])(h=positions, input_size=spec.inputs, loss=loss, **options)


def train_network(
    lessons: Lessons,
    spec: NetworkSpec,
    calendar: Calendar,
    effort: Effort,
    *,
    start: Weights | None = None,
) -> TrainedNetwork:
    """Fit, then shift each quantile so that it covers on the last tenth of the past, held out.

    `start` warm-starts from earlier weights where their shapes fit. PatchTST is trained by
    numpy, everything else by torch. Raises MissingPackage, NotEnoughHistory.
    """
    data = network_lessons(lessons, spec, calendar)
    if spec.architecture == "PatchTST":
        return train_patchtst(data, lessons, spec, effort, start=start)
    torch = heavy("torch")
    torch.manual_seed(effort.seed)
    module = build_module(spec, lessons.grid)
    if start is not None:
        _load_fitting(module, start)
    descended = descend(module, data, spec, effort)
    module.eval()
    weights = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    held = np.flatnonzero(data.last)
    times = None if data.calendar is None else data.calendar[held]
    logs = read_positions(answers_of(module, data.inputs[held], times), spec, lessons.grid)
    offsets = offsets_for(logs, lessons.came[data.rows[held]], spec)
    return TrainedNetwork(
        spec, weights, offsets, descended.loss, descended.steps, converged=descended.converged
    )


def exported(trained: TrainedNetwork, grid: Grid) -> bytes:
    """The network as a program that torch runs by itself, for batches of `EXPORTED_ROWS`.

    So a controller can serve any architecture without importing neuralforecast.
    """
    torch = heavy("torch")
    spec = trained.spec
    module = build_module(spec, grid)
    module.load_state_dict({name: torch.from_numpy(np.array(v)) for name, v in trained.weights.items()})

    class Answering(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.network = module

        def forward(self, inputs: Any, calendar: Any) -> Any:
            return answer(self.network, inputs, calendar if spec.calendar else None)

    inputs = torch.randn(EXPORTED_ROWS, spec.inputs)
    columns = len(CALENDAR_COLUMNS)
    calendar = torch.randn(EXPORTED_ROWS, spec.inputs + spec.positions(grid), columns)
    program = torch.export.export(Answering().eval(), (inputs, calendar))
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def _load_fitting(module: Any, start: Weights) -> None:
    torch = heavy("torch")

    own = module.state_dict()
    fitting = {
        name: torch.from_numpy(np.array(value))
        for name, value in start.items()
        if name in own and tuple(own[name].shape) == value.shape
    }
    module.load_state_dict({**own, **fitting})


def answers_of(module: Any, inputs: NDArray[np.float32], calendar: NDArray[np.float32] | None) -> Rates:
    """(rows, positions, LEVELS) in pieces that fit the cache, as numpy."""
    torch = heavy("torch")

    pieces = []
    with torch.no_grad():
        for at in range(0, len(inputs), 512):
            times = None if calendar is None else torch.from_numpy(calendar[at : at + 512])
            pieces.append(answer(module, torch.from_numpy(inputs[at : at + 512]), times).numpy())
    return np.concatenate(pieces).astype(np.float64)
