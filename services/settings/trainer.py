"""Settings of Penstock's own trainer: the workers, and the parameter server that they share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from services.settings.group import SettingsGroup


class WorkerSettings(SettingsGroup):
    """Penstock's own worker."""

    device: Literal["emulated", "numpy", "cpu", "cuda"] = "emulated"
    """`emulated` takes as long for a step as a GPU would, and computes nothing. The others learn, with the
    parameter server: `numpy` on any machine, `cpu` and `cuda` by PyTorch (the extra `trainer`)."""
    batch: Annotated[int, Field(ge=1, le=1_000_000)] = 128
    """Samples in a step; a million at most, which is what Kafka's client gives at once."""
    step_ms: NonNegativeFloat | None = None
    """How long a full step takes at least; when not given, 128 on the emulated device and 0 on others."""
    startup_s: NonNegativeFloat = 0.0
    """Extra start-up time, as loading a model would take."""
    categorical: Annotated[int, Field(ge=1, le=255)] = 6
    """Ids in a sample. The default is that of `penstock traffic`."""
    numeric: Annotated[int, Field(ge=0, le=255)] = 2
    """Numeric features in a sample."""
    crosses: tuple[tuple[NonNegativeInt, NonNegativeInt], ...] = ()
    """Pairs of ids, by their place in a sample from 0 on, whose combination gets parameters of its own: what
    two fields mean together is then learned at once. May not change while there are parameters."""
    staleness: PositiveInt = 2
    """Batches that a worker may have pulled and not yet pushed: 1 waits for each, more hide the network."""

    @model_validator(mode="after")
    def _crosses_are_there(self) -> Self:
        for first, second in self.crosses:
            if first == second or max(first, second) >= self.categorical:
                raise ValueError(
                    f"crosses has ({first}, {second}); it takes two different places below categorical "
                    f"({self.categorical})"
                )
        return self

    @property
    def pace_ms(self) -> float:
        """How long a full step takes at least."""
        if self.step_ms is None:
            return 128.0 if self.device == "emulated" else 0.0
        return self.step_ms


class ParameterSettings(SettingsGroup):
    """The parameter server. In use when `worker.device` learns."""

    shards: Annotated[int, Field(ge=1, le=1000)] = 1
    """Processes that share the parameters, `penstock shard` each. May not change while there are any."""
    capacities: tuple[PositiveFloat, ...] = ()
    """What each shard can hold and serve, one number each, in any unit: slots are dealt in proportion.
    Equal shards need none. Read by the first start."""
    dense_shards: PositiveInt = 1
    """How many of them share the dense part. May not change while there are any."""
    relief: Annotated[float, Field(gt=0, le=1)] | None = 0.25
    """A shard takes slots from the busiest one that is busier by this share of its time; null: never."""
    relief_s: PositiveFloat = 30.0
    """Between two looks at how busy the other shards are."""
    dim: PositiveInt = 8
    """Numbers in an embedding."""
    hidden: PositiveInt = 32
    """Units of the hidden layer."""
    rows_max: PositiveInt = 1_000_000
    """Ids that one shard remembers; the longest unused are forgotten."""
    admit_after: Annotated[int, Field(ge=1, le=255)] = 1
    """An id gets parameters when it is met the so-many-th time."""
    learning_rate: PositiveFloat = 0.05
    """Of embeddings, by row-wise Adagrad."""
    dense_learning_rate: PositiveFloat = 0.01
    """Of the dense layers."""
    forget: Annotated[float, Field(ge=0, lt=1)] = 0.01
    """Share of Adagrad's sums forgotten with each update: 0 learns ever more slowly, more follows drift."""
    half: bool = False
    """Send rows and gradients in 16 bits: half the bytes, a little less exact."""
    directory: Path = Path(".penstock/parameters")
    """Where shards keep their snapshots."""
    snapshot_s: PositiveFloat = 60.0
    """Between two snapshots. What was trained since the last is trained again when a shard is lost."""
    snapshots_kept: PositiveInt = 3
    """Snapshots kept of each shard."""
    service_ms: NonNegativeFloat = 0.0
    """Makes a shard take this long for each pull and push, to show what its limit does to the workers."""

    @model_validator(mode="after")
    def _a_capacity_for_each(self) -> Self:
        if self.capacities and len(self.capacities) != self.shards:
            raise ValueError(
                f"capacities has {len(self.capacities)} numbers; shards is {self.shards}: give one for each"
            )
        return self
