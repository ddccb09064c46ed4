"""The net's gradients are those of its loss, by differences and by PyTorch; overflow is noticed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from services.samples.layout import Floats, SampleShape
from services.trainer.net import Lesson, Net, NetShape, NumpyNet, split_dense
from services.trainer.net_choice import DeviceMissing, net_on

SHAPE = NetShape(SampleShape(categorical=3, numeric=2), dim=4, hidden=5)


def given(count: int = 6, *, seed: int = 3) -> tuple[Floats, Floats, Floats, Floats]:
    random = np.random.default_rng(seed)
    rows = random.normal(0, 0.5, (count, 3, SHAPE.row_size)).astype(np.float32)
    numbers = random.normal(size=(count, 2)).astype(np.float32)
    labels = random.integers(0, 2, count).astype(np.float32)
    dense = (SHAPE.first_dense() + random.normal(0, 0.1, SHAPE.dense_size)).astype(np.float32)
    return rows, numbers, labels, dense


def loss_of(net: Net, rows: Floats, numbers: Floats, labels: Floats, dense: Floats) -> float:
    return net.learn(rows, numbers, labels, dense).loss


def test_gradients_are_the_slopes_of_the_loss() -> None:
    net, (rows, numbers, labels, dense) = NumpyNet(SHAPE), given()
    lesson = net.learn(rows, numbers, labels, dense)
    step = 1e-3
    for place in range(0, SHAPE.dense_size, 3):
        for other in (moved := [dense.copy(), dense.copy()]):
            other[place] += step if other is moved[0] else -step
        slope = loss_of(net, rows, numbers, labels, moved[0]) - loss_of(net, rows, numbers, labels, moved[1])
        assert lesson.dense[place] == pytest.approx(slope / (2 * step), abs=2e-3)
    for at in np.ndindex(2, 3, SHAPE.row_size):
        for other in (moved := [rows.copy(), rows.copy()]):
            other[at] += step if other is moved[0] else -step
        slope = loss_of(net, moved[0], numbers, labels, dense) - loss_of(
            net, moved[1], numbers, labels, dense
        )
        assert lesson.rows[at] == pytest.approx(slope / (2 * step), abs=2e-3)


def test_the_dense_vector_has_room_for_exactly_its_parts() -> None:
    parts = split_dense(np.arange(SHAPE.dense_size, dtype=np.float32), SHAPE)

    assert sum(part.size for part in parts) == SHAPE.dense_size
    assert parts.layer.shape == (3 * 4 + 2, 5)
    assert parts.out.shape == (5,)


@pytest.mark.parametrize("poison", ["rows", "numbers", "dense"])
def test_numbers_beyond_all_bounds_show_in_the_lesson_and_not_as_a_warning(poison: str) -> None:
    rows, numbers, labels, dense = given()
    {"rows": rows, "numbers": numbers, "dense": dense}[poison][...] = 3e38

    assert not NumpyNet(SHAPE).learn(rows, numbers, labels, dense).sound
    assert NumpyNet(SHAPE).learn(*given()).sound


@pytest.mark.forecast_extras
@pytest.mark.parametrize("seed", range(5))
def test_pytorch_and_numpy_teach_the_same(seed: int) -> None:
    pytest.importorskip("torch", reason="needs torch: make test-forecast")
    ours, theirs = (net_on(device, SHAPE).learn(*given(40, seed=seed)) for device in ("numpy", "cpu"))

    def flat(lesson: Lesson) -> list[Floats]:
        return [lesson.chances, lesson.rows, lesson.dense]

    assert ours.loss == pytest.approx(theirs.loss, rel=1e-5)
    for mine, other in zip(flat(ours), flat(theirs), strict=True):
        assert mine == pytest.approx(other, rel=1e-4, abs=1e-6)


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(DeviceMissing, match=r"penstock\[trainer\]|sees no GPU"):
        net_on("cuda", SHAPE)


def test_a_worker_that_needs_neither_torch_nor_the_compiler_does_not_load_them() -> None:
    """Half a gigabyte and half a second, for each worker of a demo."""
    program = (
        "import sys, services.trainer.worker, services.cli.worker\n"
        "from services.trainer.net_choice import net_on\n"
        "from services.trainer.net import NetShape\n"
        "from services.samples.layout import SampleShape\n"
        "net_on('numpy', NetShape(SampleShape(1, 0)))\n"
        "sys.exit(' '.join(name for name in ('torch', 'services.trainer.ps.kernels') if name in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert ended.stderr.strip() == ""
