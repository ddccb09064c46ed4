"""The binary form of a sample, version 1. Little-endian, packed, of one size for one shape.

| bytes      | type       | what                                                       |
|------------|------------|------------------------------------------------------------|
| 0          | u8         | 0x50, the letter P                                         |
| 1          | u8         | version of the schema: 1                                   |
| 2          | u8         | C, how many categorical fields                             |
| 3          | u8         | N, how many numeric ones                                   |
| 4          | f32        | label, 0 to 1                                              |
| 8          | f64        | event time, seconds since the epoch                        |
| 16         | u64 × C    | ids, one for each categorical field; each has its own space|
| 16 + 8 C   | f32 × N    | numeric features                                           |

One size for all samples is what makes them quick to read: a batch is one numpy view.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

MAGIC: Final = 0x50
VERSION: Final = 1
HEAD: Final = np.dtype(
    [("magic", "u1"), ("version", "u1"), ("categorical", "u1"), ("numeric", "u1"), ("label", "<f4")]
)

Ids = NDArray[np.uint64]
Floats = NDArray[np.float32]
Times = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SampleShape:
    """How many fields of each kind a sample has; all samples of a topic have the same.

    >>> SampleShape(categorical=6, numeric=2).size_bytes
    72
    """

    categorical: int
    numeric: int

    def __post_init__(self) -> None:
        if not (1 <= self.categorical <= 255 and 0 <= self.numeric <= 255):
            raise ValueError(
                f"a sample has 1 to 255 categorical fields and 0 to 255 numeric ones, "
                f"not {self.categorical} and {self.numeric}"
            )

    @property
    def size_bytes(self) -> int:
        """Of one sample in the binary form."""
        return 16 + 8 * self.categorical + 4 * self.numeric


@dataclass(frozen=True, slots=True)
class Samples:
    """Many samples as columns."""

    labels: Floats
    at_s: Times
    """When each event happened."""
    ids: Ids
    """Shape (samples, categorical)."""
    numbers: Floats
    """Shape (samples, numeric)."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> SampleShape:
        return SampleShape(self.ids.shape[1], self.numbers.shape[1])

    def taken(self, which: NDArray[Any]) -> Samples:
        """Some of them, by index or mask."""
        return Samples(self.labels[which], self.at_s[which], self.ids[which], self.numbers[which])

    @classmethod
    def joined(cls, parts: list[Samples]) -> Samples:
        """All of these, one after the other."""
        return cls(
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.at_s for part in parts]),
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.numbers for part in parts]),
        )


@cache
def record_of(shape: SampleShape) -> np.dtype[np.void]:
    """One sample as numpy sees it."""
    fields = [
        *((name, HEAD[name]) for name in HEAD.names or ()),
        ("at_s", "<f8"),
        ("ids", "<u8", (shape.categorical,)),
        ("numbers", "<f4", (shape.numeric,)),
    ]
    return np.dtype(fields)


def encode(samples: Samples) -> list[bytes]:
    """Each sample in the binary form."""
    shape = samples.shape
    records = np.empty(len(samples), record_of(shape))
    records["magic"], records["version"] = MAGIC, VERSION
    records["categorical"], records["numeric"] = shape.categorical, shape.numeric
    records["label"], records["at_s"] = samples.labels, samples.at_s
    records["ids"], records["numbers"] = samples.ids, samples.numbers
    whole, size = records.tobytes(), shape.size_bytes
    return [whole[start : start + size] for start in range(0, len(whole), size)]
