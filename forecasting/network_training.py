"""Train a network of neuralforecast by its bare module. torch and neuralforecast are imported here only.

The package's own loop rebuilds all windows every step and runs at a constant
learning rate, which ruins these networks; its modules are sound. So: our windows, our
weights, the pinball loss on the very targets, cosine decay, clipped gradients.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecasting.calendar import Calendar
from forecasting.errors import NotEnoughHistory
from forecasting.forecast import LEVELS
from forecasting.grid import Grid
from forecasting.heavy import heavy
from forecasting.learned import ROWS_MIN, Lessons, weights_of
from forecasting.network import (
    CALENDAR_COLUMNS,
    NetworkSpec,
    Weights,
    calendar_of,
    inputs_of,
    positions_wanted,
    read_positions,
)
from forecasting.seq2seq import seq2seq_module

EPOCHS_MAX = 30
"""A network that sees few rows more often than this learns them by heart."""
EXPORTED_ROWS = 64
"""Rows of one call of an exported network."""
_EMPHASIS = (1.0, 2.0, 1.0, 3.0, 1.0)
"""By level: what is scored and planned with is the median and the 0.95 quantile."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much training: at most `steps`, and no longer than `used` says (1 = the budget is spent)."""

    steps: int = 1500
    batch: int = 192
    learning_rate: float = 2e-3
    used: Callable[[], float] = lambda: 0.0
    tell: Callable[[float, float], None] = lambda _share, _loss: None
    """Called now and then with the share done and the loss."""
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class TrainedNetwork:
    """Weights by name, and log offsets by (KINDS, leads, LEVELS) that made its quantiles cover."""

    spec: NetworkSpec
    weights: Weights
    offsets: NDArray[np.float64]
    loss: float
    steps: int


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

    `start` warm-starts from earlier weights where their shapes fit.
    """
    torch = heavy("torch")

    torch.manual_seed(effort.seed)
    data = _tensors(lessons, spec, calendar)
    module = build_module(spec, lessons.grid)
    if start is not None:
        _load_fitting(module, start)
    loss, steps = _descend(module, data, effort)
    module.eval()
    weights = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    return TrainedNetwork(spec, weights, _offsets(module, data, lessons, spec), loss, steps)


@dataclass(frozen=True, slots=True, eq=False)
class _Tensors:
    inputs: Any
    calendar: Any | None
    wanted: Any
    weights: Any
    rows: NDArray[np.int64]
    """Which lessons they are."""
    last: NDArray[np.bool_]
    """The last tenth of every topic's past: held out for the offsets."""


def _tensors(lessons: Lessons, spec: NetworkSpec, calendar: Calendar) -> _Tensors:
    torch = heavy("torch")

    inputs, times, wanted, last, enough = [], [], [], [], []
    at = 0
    for batch in lessons.batches:
        part = slice(at, at + len(batch))
        at += len(batch)
        level = type(lessons.features.level)(
            lessons.features.level.now[part], lessons.features.level.offset[part]
        )
        inputs.append(inputs_of(batch, level, spec))
        if spec.calendar:
            times.append(calendar_of(batch, calendar, spec))
        wanted.append(positions_wanted(lessons.came[part], batch, level, spec))
        enough.append(batch.known >= spec.needs(lessons.grid))
        last.append(np.arange(len(batch)) >= 0.9 * len(batch))
    rows = np.flatnonzero(np.concatenate(enough)) if enough else np.empty(0, dtype=np.int64)
    if len(rows) < ROWS_MIN:
        step_s = lessons.grid.step_s
        raise NotEnoughHistory(spec.name, have_s=at * step_s, need_s=2 * spec.needs(lessons.grid) * step_s)
    return _Tensors(
        torch.from_numpy(np.concatenate(inputs)[rows]),
        torch.from_numpy(np.concatenate(times)[rows]) if times else None,
        torch.from_numpy(np.concatenate(wanted)[rows]),
        torch.from_numpy(weights_of(lessons)[rows].astype(np.float32)),
        rows,
        np.concatenate(last)[rows],
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


def _descend(module: Any, data: _Tensors, effort: Effort) -> tuple[float, int]:
    torch = heavy("torch")

    taus, emphasis = torch.tensor(LEVELS), torch.tensor(_EMPHASIS)
    usable = torch.from_numpy(np.flatnonzero(~data.last))
    optimiser = torch.optim.AdamW(module.parameters(), lr=effort.learning_rate, weight_decay=1e-3)
    draw = torch.Generator().manual_seed(effort.seed)
    smooth, step = float("nan"), 0
    steps = min(effort.steps, max(EPOCHS_MAX * len(usable) // effort.batch, 100))
    module.train()
    while step < steps:
        share = max(step / steps, effort.used())
        if share >= 1:
            break
        rate = effort.learning_rate * min(1.0, step / 50 + 0.02) * 0.5 * (1 + np.cos(np.pi * share))
        for group in optimiser.param_groups:
            group["lr"] = rate
        picked = usable[torch.randint(len(usable), (effort.batch,), generator=draw)]
        times = None if data.calendar is None else data.calendar[picked]
        guess = answer(module, data.inputs[picked], times)
        wanted = data.wanted[picked][..., None]
        known = ~torch.isnan(wanted)
        error = torch.where(known, wanted - guess, torch.zeros_like(guess))
        pinball = torch.maximum(taus * error, (taus - 1) * error) * emphasis
        loss = (pinball * data.weights[picked][:, None, None]).mean()
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


def _offsets(module: Any, data: _Tensors, lessons: Lessons, spec: NetworkSpec) -> NDArray[np.float64]:
    """By (KINDS, leads, LEVELS): how far each quantile was off, in logarithms, on rows held out."""
    held = np.flatnonzero(data.last)
    logs = read_positions(answers_of(module, data.inputs[held], data.calendar, held), spec, lessons.grid)
    came = lessons.came[data.rows[held]][..., None]
    levels = np.array(LEVELS)
    offsets = np.zeros(logs.shape[1:])
    for q, level in enumerate(levels):
        error = np.where(np.isnan(came[..., 0]), np.nan, came[..., 0] - logs[..., q])
        if len(held) >= ROWS_MIN:
            offsets[..., q] = np.nan_to_num(np.nanquantile(error, level, axis=0))
    # A direct network was trained on these targets: half of what a tenth of the past says is noise.
    return np.clip(offsets, -1.0, 1.0) * (0.5 if spec.direct else 1.0)


def answers_of(module: Any, inputs: Any, calendar: Any | None, rows: NDArray[np.int64]) -> Any:
    """Answers in pieces that fit the cache, as numpy."""
    torch = heavy("torch")

    pieces = []
    with torch.no_grad():
        for at in range(0, len(inputs), 512):
            times = None if calendar is None else calendar[rows[at : at + 512]]
            pieces.append(answer(module, inputs[at : at + 512], times).numpy())
    return np.concatenate(pieces).astype(np.float64)
