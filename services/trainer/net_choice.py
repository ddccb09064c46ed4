"""Which net a device runs. PyTorch is imported here, and only when it was asked for."""

from __future__ import annotations

from services.trainer.net import Net, NetShape, NumpyNet


class DeviceMissing(Exception):
    """The device asked for cannot be used on this machine. Says what to do."""


def net_on(device: str, shape: NetShape) -> Net:
    """The net for `numpy`, `cpu` or `cuda`. Raises DeviceMissing."""
    if device == "numpy":
        return NumpyNet(shape)
    try:
        import torch  # noqa: PLC0415 - half a gigabyte, only where it was asked for

        from services.trainer.torch_net import TorchNet  # noqa: PLC0415
    except ImportError as error:
        raise DeviceMissing(
            f"device {device!r} needs PyTorch: install penstock[trainer], or set worker.device to numpy"
        ) from error
    if device == "cuda" and not torch.cuda.is_available():
        raise DeviceMissing("device 'cuda': PyTorch sees no GPU here; set worker.device to cpu or numpy")
    return TorchNet(shape, device)
