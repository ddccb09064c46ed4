"""Train a network of neuralforecast by its bare module; PatchTST by numpy (`patchtst_training`).

The package's own loop rebuilds all windows every step and runs at a constant
learning rate, which ruins these networks; its modules are sound. So: our windows, our
weights, the pinball loss on the very targets, cosine decay, clipped gradients.
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
from forecasting.network_lessons import (
    EMPHASIS,
    Effort,
    NetworkLessons,
    TrainedNetwork,
    network_lessons,
    offsets_for,
)
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


def answer(module: Any, inputs: Any, calendar: Any | None) -> Any:
    """(rows, positions, LEVELS) from the bare module, whatever its kind."""
    torch = heavy("torch")

    window = {
        "insample_y": inputs[:, :, None],
        "insample_mask": torch.ones_like(inputs)[:, :, None],
        "futr_exog": calendar,
        "hist_exog": None,
        "stat_exog": None,
    }
    return module(window).reshape(len(inputs), -1, len(LEVELS))


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
    loss, steps = _descend(module, data, spec, effort)
    module.eval()
    weights = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    held = np.flatnonzero(data.last)
    times = None if data.calendar is None else data.calendar[held]
    logs = read_positions(answers_of(module, data.inputs[held], times), spec, lessons.grid)
    offsets = offsets_for(logs, lessons.came[data.rows[held]], spec)
    return TrainedNetwork(spec, weights, offsets, loss, steps)


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


def _descend(module: Any, data: NetworkLessons, spec: NetworkSpec, effort: Effort) -> tuple[float, int]:
    torch = heavy("torch")

    taus, emphasis = torch.tensor(LEVELS), torch.tensor(EMPHASIS)
    inputs, all_wanted = torch.from_numpy(data.inputs), torch.from_numpy(data.wanted)
    calendar = None if data.calendar is None else torch.from_numpy(data.calendar)
    row_weights = torch.from_numpy(data.weights)
    usable = torch.from_numpy(np.flatnonzero(~data.last))
    optimiser = torch.optim.AdamW(module.parameters(), lr=spec.learning_rate, weight_decay=1e-3)
    draw = torch.Generator().manual_seed(effort.seed)
    smooth, step, steps = float("nan"), 0, effort.steps_for(len(usable), spec)
    module.train()
    while step < steps:
        share = max(step / steps, effort.used())
        if share >= 1:
            break
        for group in optimiser.param_groups:
            group["lr"] = effort.rate(step, share, spec)
        picked = usable[torch.randint(len(usable), (effort.batch_of(spec),), generator=draw)]
        guess = answer(module, inputs[picked], None if calendar is None else calendar[picked])
        wanted = all_wanted[picked][..., None]
        error = torch.where(torch.isnan(wanted), torch.zeros_like(guess), wanted - guess)
        pinball = torch.maximum(taus * error, (taus - 1) * error) * emphasis
        loss = (pinball * row_weights[picked][:, None, None]).mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()
        value = float(loss.detach())
        smooth = value if step == 0 else 0.98 * smooth + 0.02 * value
        step += 1
        if step % 25 == 0:
            effort.tell(share, smooth)
    return smooth, step


def answers_of(module: Any, inputs: NDArray[np.float32], calendar: NDArray[np.float32] | None) -> Rates:
    """(rows, positions, LEVELS) in pieces that fit the cache, as numpy."""
    torch = heavy("torch")

    pieces = []
    with torch.no_grad():
        for at in range(0, len(inputs), 512):
            times = None if calendar is None else torch.from_numpy(calendar[at : at + 512])
            pieces.append(answer(module, torch.from_numpy(inputs[at : at + 512]), times).numpy())
    return np.concatenate(pieces).astype(np.float64)
