"""Which net a device runs."""

from __future__ import annotations

from services.trainer.net import Net, NetShape, NumpyNet
from services.trainer.torch_net import TorchNet


class DeviceMissing(Exception):
    """The device asked for cannot be used on this machine. Says what to do."""


def net_on(device: str, shape: NetShape) -> Net:
    """The net for `numpy`, `cpu` or `cuda`. Raises DeviceMissing."""
    if device == "numpy":
        return NumpyNet(shape)
    try:
        net = TorchNet(shape, device)
    except ImportError as error:
        raise DeviceMissing(
            f"device {device!r} needs PyTorch: install penstock[trainer], or set worker.device to numpy"
        ) from error
    if not net.usable:
        raise DeviceMissing("device 'cuda': PyTorch sees no GPU here; set worker.device to cpu or numpy")
    return net
