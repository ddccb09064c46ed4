"""The stream as a PyTorch dataset; PyTorch itself is stood in for where it is not installed."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from services.stream.torch_dataset import torch_dataset


class Batches:
    """A stream of three numbers."""

    def __init__(self) -> None:
        self._left = [1, 2, 3]

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> int:
        if not self._left:
            raise StopIteration
        return self._left.pop(0)


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """torch.utils.data as far as a dataset touches it."""
    data = ModuleType("torch.utils.data")
    data.IterableDataset = type("IterableDataset", (), {})  # type: ignore[attr-defined]
    data.get_worker_info = lambda: None  # type: ignore[attr-defined]
    for name, module in {
        "torch": ModuleType("torch"),
        "torch.utils": ModuleType("torch.utils"),
        "torch.utils.data": data,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    return data


def test_a_dataset_yields_the_batches_of_the_stream(loading: Any) -> None:
    dataset = torch_dataset(Batches())  # type: ignore[arg-type]

    assert isinstance(dataset, loading.IterableDataset)
    assert list(dataset) == [1, 2, 3]


def test_a_dataset_refuses_to_be_read_in_a_loaders_process(loading: Any) -> None:
    loading.get_worker_info = object

    with pytest.raises(RuntimeError, match="num_workers=0"):
        iter(torch_dataset(Batches()))  # type: ignore[arg-type]
