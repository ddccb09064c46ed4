"""The descent of one torch network on the pinball loss, and when it ends.

Within a budget the learning rate decays to nothing as the budget is spent. Until
convergence it stays high while the loss on rows held out falls, is lowered whenever that
has stopped, and training ends when it has stopped at the lowest rate too: then more
training would not help this network on these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forecasting.forecast import LEVELS
from forecasting.heavy import heavy
from forecasting.network import NetworkSpec
from forecasting.network_lessons import EMPHASIS, Effort, NetworkLessons

CHECK_STEPS = 40
"""Between two looks at the rows held out."""
PATIENCE = 5
"""Looks without a gain after which the learning rate is lowered."""
GAIN_MIN = 1e-3
"""A smaller share of the loss than this is no gain."""
LOWERED = (1.0, 0.3, 0.1)
"""Learning rates, over the network's highest, that are gone through."""
CHECKED_ROWS = 768
"""Rows held out that a look takes, evenly spread over them."""
WARM_UP_STEPS = 50


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


@dataclass(frozen=True, slots=True)
class Descended:
    """How a training went."""

    loss: float
    """Smoothed, of the last steps; on the rows held out where it was trained until convergence."""
    steps: int
    converged: bool


def descend(module: Any, data: NetworkLessons, spec: NetworkSpec, effort: Effort) -> Descended:
    """Train the module in place, as the effort says."""
    descent = _Descent(module, data, spec, effort)
    return _until_converged(descent) if effort.until_converged else _within_budget(descent)


def _within_budget(descent: _Descent) -> Descended:
    effort, spec = descent.effort, descent.spec
    smooth, step, steps = float("nan"), 0, effort.steps_for(len(descent.usable), spec)
    while step < steps:
        share = effort.share(step, steps)
        if share >= 1:
            break
        value = descent.step(effort.rate(step, share, spec))
        smooth = value if step == 0 else 0.98 * smooth + 0.02 * value
        step += 1
        if step % 25 == 0:
            effort.tell(share, smooth)
    return Descended(smooth, step, converged=False)


def _until_converged(descent: _Descent) -> Descended:
    effort, plateau, step = descent.effort, Plateau(), 0
    most = effort.steps_of(descent.spec)
    highest = descent.spec.learning_rate if effort.learning_rate is None else effort.learning_rate
    best: dict[str, Any] | None = None
    while not plateau.over and step < most and effort.used() < 1:
        descent.step(highest * plateau.rate * min(1.0, step / WARM_UP_STEPS + 0.02))
        step += 1
        if step % CHECK_STEPS:
            continue
        if plateau.look(descent.held_out_loss()):
            best = descent.weights()
        elif plateau.lowered_now and best is not None:
            descent.restore(best)
        effort.tell(min(effort.used(), 1.0), plateau.best)
    if best is not None:  # None: the budget did not last until the first look
        descent.restore(best)
    return Descended(plateau.best, step, converged=plateau.over)


@dataclass(slots=True)
class Plateau:
    """Has the loss on rows held out stopped falling? Looked at again and again.

    >>> plateau = Plateau()
    >>> plateau.look(1.0), plateau.look(0.9)
    (True, True)
    >>> _ = [plateau.look(0.9) for _ in range(PATIENCE)]
    >>> plateau.rate, plateau.over
    (0.3, False)
    """

    best: float = float("inf")
    lowered_now: bool = False
    """Whether the last look lowered the rate: go on from the best weights."""
    _stage: int = 0
    _without_gain: int = 0

    @property
    def over(self) -> bool:
        return self._stage >= len(LOWERED)

    @property
    def rate(self) -> float:
        """Learning rate over the network's highest."""
        return LOWERED[min(self._stage, len(LOWERED) - 1)]

    def look(self, loss: float) -> bool:
        """Take one more loss; whether it is the best so far."""
        gained = loss < self.best * (1 - GAIN_MIN)
        better = loss < self.best
        self.best = min(self.best, loss)
        self._without_gain = 0 if gained else self._without_gain + 1
        self.lowered_now = self._without_gain >= PATIENCE
        if self.lowered_now:
            self._stage, self._without_gain = self._stage + 1, 0
        return better


class _Descent:
    """AdamW with clipped gradients on rows drawn at random; the last of every topic are held out."""

    def __init__(self, module: Any, data: NetworkLessons, spec: NetworkSpec, effort: Effort) -> None:
        torch = heavy("torch")
        self.module, self.spec, self.effort = module, spec, effort
        self._taus, self._emphasis = torch.tensor(LEVELS), torch.tensor(EMPHASIS)
        self._inputs, self._wanted = torch.from_numpy(data.inputs), torch.from_numpy(data.wanted)
        self._calendar = None if data.calendar is None else torch.from_numpy(data.calendar)
        self._row_weights = torch.from_numpy(data.weights)
        self.usable = torch.from_numpy(np.flatnonzero(~data.last))
        held = np.flatnonzero(data.last)
        self._held = torch.from_numpy(held[:: max(1, -(-len(held) // CHECKED_ROWS))])
        self._optimiser = torch.optim.AdamW(module.parameters(), lr=spec.learning_rate, weight_decay=1e-3)
        self._draw = torch.Generator().manual_seed(effort.seed)
        module.train()

    def step(self, rate: float) -> float:
        """One step at a learning rate; the loss before it."""
        torch = heavy("torch")
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        size = (self.effort.batch_of(self.spec),)
        loss = self._loss(self.usable[torch.randint(len(self.usable), size, generator=self._draw)])
        self._optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        self._optimiser.step()
        return float(loss.detach())

    def held_out_loss(self) -> float:
        torch = heavy("torch")
        self.module.eval()
        with torch.no_grad():
            pieces = [(len(rows), float(self._loss(rows))) for rows in self._held.split(256)]
        self.module.train()
        return sum(rows * loss for rows, loss in pieces) / max(sum(rows for rows, _ in pieces), 1)

    def _loss(self, rows: Any) -> Any:
        torch = heavy("torch")
        guess = answer(
            self.module, self._inputs[rows], None if self._calendar is None else self._calendar[rows]
        )
        wanted = self._wanted[rows][..., None]
        error = torch.where(torch.isnan(wanted), torch.zeros_like(guess), wanted - guess)
        pinball = torch.maximum(self._taus * error, (self._taus - 1) * error) * self._emphasis
        return (pinball * self._row_weights[rows][:, None, None]).mean()

    def weights(self) -> dict[str, Any]:
        return {name: value.detach().clone() for name, value in self.module.state_dict().items()}

    def restore(self, weights: dict[str, Any]) -> None:
        self.module.load_state_dict(weights)
