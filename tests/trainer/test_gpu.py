"""The GPU's own word where NVML can be asked, compute time over wall time where it cannot."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from estimator.throughput import StepTimes
from services.control.types import GpuLoad
from services.trainer.gpu import gpu_meter
from services.trainer.telemetry import Tally


class Nvml(ModuleType):
    """As much of pynvml as is asked for."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.asked: list[Any] = []
        self.driver = True

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's own name
        if not self.driver:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        self.asked.append(index)
        return "handle"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        self.asked.append(uuid)
        return "handle"

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:  # noqa: N802
        self.nvmlInit()
        return SimpleNamespace(gpu=37, memory=12)

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(used=3 * 2**30)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Nvml:
    module = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


@pytest.mark.parametrize(
    ("visible", "asked"), [("", 0), ("2,3", 2), ("GPU-7f,GPU-8a", "GPU-7f"), ("MIG-1", "MIG-1")]
)
def test_the_gpu_that_cuda_shows_is_the_one_that_is_asked(
    nvml: Nvml, monkeypatch: pytest.MonkeyPatch, visible: str, asked: object
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    assert gpu_meter("cuda")() == GpuLoad(0.37, 3 * 2**30)
    assert nvml.asked == [asked]


def test_a_driver_that_stops_answering_is_told_of_once(nvml: Nvml) -> None:
    read = gpu_meter("cuda")
    nvml.driver = False

    with capture_logs() as logs:
        assert read() is None
        assert read() is None
    assert [log["event"] for log in logs] == ["gpu_not_metered"]
    nvml.driver = True
    assert read() == GpuLoad(0.37, 3 * 2**30)


def test_without_nvml_its_driver_or_cuda_nothing_is_told(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu_meter("numpy")() is None
    nvml.driver = False
    assert gpu_meter("cuda")() is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu_meter("cuda")() is None


def test_compute_time_over_wall_time_stands_in_for_nvml() -> None:
    now_s = 0.0
    tally = Tally("w", elapsed_s=lambda: now_s)
    tally.step_began()
    now_s = 4.0
    tally.step_ended(10, StepTimes(input_s=1.0, compute_s=2.0, wait_s=1.0))
    now_s = 10.0
    report = tally.report()

    assert report.busy == pytest.approx(0.4)
    assert report.gpu is not None
    assert report.gpu.busy == pytest.approx(0.2)


def test_a_worker_that_measures_no_parts_computes_while_it_is_busy() -> None:
    now_s = 0.0
    tally = Tally("w", elapsed_s=lambda: now_s)
    tally.step_began()
    now_s = 4.0
    tally.step_ended(10)
    now_s = 10.0

    assert tally.report().gpu == GpuLoad(0.4)
