"""The stream as a PyTorch dataset. Needs the `trainer` extra; PyTorch is imported when this is used.

with stream(settings, "clicks", worker="gpu-3", decode=decode) as batches:
    for batch in DataLoader(torch_dataset(batches), batch_size=None):
        train(batch.decoded())
        batch.done()
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from services.stream.batch import Batch
from services.stream.ports import BatchStream


def torch_dataset(batches: BatchStream) -> Any:
    """An `IterableDataset` of the batches of a stream, which are cut to size: use `batch_size=None`.

    Only in the trainer's own process (`num_workers=0`): `done()` of a batch that went to another
    process would reach nobody. The stream reads ahead in threads of its own.
    """
    from torch.utils.data import IterableDataset, get_worker_info  # noqa: PLC0415 - seconds, for few

    class StreamDataset(IterableDataset):  # type: ignore[misc, type-arg, unused-ignore]
        def __iter__(self) -> Iterator[Batch]:
            if get_worker_info() is not None:
                raise RuntimeError("a stream needs DataLoader(num_workers=0); it reads ahead by itself")
            return batches

    return StreamDataset()
