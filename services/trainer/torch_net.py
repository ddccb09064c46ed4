"""The same net in PyTorch, on the CPU or a GPU. PyTorch is imported when it is made: it costs half a GB."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from services.samples.layout import Floats
from services.trainer.net import Lesson, NetShape


class TorchNet:
    """Implements Net. Differentiates by PyTorch itself, so that it vouches for the formulae in `net`."""

    def __init__(self, shape: NetShape, device: str) -> None:
        """Raises ImportError where PyTorch is not installed."""
        self._torch: Any = import_module("torch")
        self._shape = shape
        self._device = self._torch.device(device)

    @property
    def usable(self) -> bool:
        """Whether the device is there."""
        return self._device.type != "cuda" or bool(self._torch.cuda.is_available())

    def learn(self, rows: Floats, numbers: Floats, labels: Floats, dense: Floats) -> Lesson:
        """As `Net` has it."""
        by_rows, by_dense = self._tensor(rows), self._tensor(dense)
        by_rows.requires_grad_()
        by_dense.requires_grad_()
        logits = self._logits(by_rows, self._tensor(numbers), by_dense)
        loss = self._torch.nn.functional.binary_cross_entropy_with_logits(logits, self._tensor(labels))
        loss.backward()
        return Lesson(
            chances=self._torch.sigmoid(logits.detach()).cpu().numpy(),
            loss=float(loss.detach()),
            rows=by_rows.grad.cpu().numpy(),
            dense=by_dense.grad.cpu().numpy(),
        )

    def _logits(self, rows: Any, numbers: Any, dense: Any) -> Any:
        torch, shape = self._torch, self._shape
        sizes = (1, shape.sample.numeric, shape.inputs * shape.hidden, shape.hidden, shape.hidden)
        bias, linear, layer, offsets, out = torch.split(dense, sizes)
        embedded = rows[:, :, 1:]
        inputs = torch.cat([embedded.flatten(1), numbers], dim=1)
        hidden = torch.relu(inputs @ layer.view(shape.inputs, shape.hidden) + offsets)
        pairs = 0.5 * (embedded.sum(1).square().sum(1) - embedded.square().sum((1, 2)))
        return bias + rows[:, :, 0].sum(1) + numbers @ linear + pairs + hidden @ out

    def _tensor(self, array: Floats) -> Any:
        # Copied: what came over the wire may not be written to, and PyTorch warns of that.
        return self._torch.from_numpy(np.array(array, np.float32)).to(self._device)
