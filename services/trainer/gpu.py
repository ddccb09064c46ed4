"""How busy the GPU is and how much of its memory is in use, by NVML where it can be asked."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import structlog

from services.control.types import GpuLoad

_log = structlog.get_logger(__name__)


def gpu_meter(device: str) -> Callable[[], GpuLoad | None]:
    """Asks NVML of the GPU that `device` runs on; tells None where it cannot be asked.

    That is on any other device than `cuda`, without the package `nvidia-ml-py`, and when the driver does
    not answer. Then compute time over wall time stands in for it.
    """
    if device != "cuda":
        return lambda: None
    try:
        nvml = import_module("pynvml")
    except ImportError:
        _log.info("gpu_not_metered", remedy="install nvidia-ml-py for utilisation and memory from NVML")
        return lambda: None
    try:
        nvml.nvmlInit()
        handle = _handle(nvml, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
    except nvml.NVMLError as error:
        _log.warning("gpu_not_metered", why=str(error))
        return lambda: None
    return _NvmlMeter(nvml, handle).read


def _handle(nvml: Any, visible: str) -> Any:
    """The first GPU that CUDA shows this process: by number, or by the name that a platform gave it."""
    first = visible.split(",", maxsplit=1)[0].strip()
    if first.startswith(("GPU-", "MIG-")):
        return nvml.nvmlDeviceGetHandleByUUID(first)
    return nvml.nvmlDeviceGetHandleByIndex(int(first) if first.isdecimal() else 0)


class _NvmlMeter:
    """Reads one GPU. A driver that stops answering is told of once."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._told = False

    def read(self) -> GpuLoad | None:
        """As it is now; None while the driver does not tell."""
        try:
            busy = self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu / 100.0
            memory_bytes = int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used)
        except self._nvml.NVMLError as error:
            if not self._told:
                _log.warning("gpu_not_metered", why=str(error))
            self._told = True
            return None
        self._told = False
        return GpuLoad(busy, memory_bytes)
