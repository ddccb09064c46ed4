"""Settings of a fleet: the GPUs that jobs share, who they belong to, and what a new job may do to them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from estimator.fleet import Budget, Node, Standing, Tenant, Tenants
from estimator.fleet.admission import AdmissionPolicy
from estimator.fleet.lending import LendingTerms
from services.control.fleet_share import FleetTerms
from services.settings.group import SettingsGroup
from services.settings.pool import PoolSettings


class GpuTypeSettings(SettingsGroup):
    """GPUs of one type."""

    gpus: Annotated[int, Field(ge=0)] = 0
    """How many there are, in nodes of `node_gpus`; beside those that `nodes` names one by one."""
    node_gpus: PositiveInt = 8
    """How many a node has."""
    price: NonNegativeFloat = 1.0
    """What one costs an hour, in any currency."""


class NodeSettings(SettingsGroup):
    """One machine."""

    gpu_type: str
    """The type of all its GPUs."""
    gpus: PositiveInt
    """How many it has."""
    within: list[str] = Field(default_factory=list)
    """What it stands in, the outermost first: rack, then switch."""
    switch_gpus: Annotated[int, Field(ge=0)] = 0
    """GPUs under one switch inside it; 0 is all of them."""


class TenantSettings(SettingsGroup):
    """Who owns jobs, or other tenants."""

    weight: NonNegativeFloat = 1.0
    """Against the tenants beside it; 0 is served from what all others leave."""
    parent: str = ""
    """The tenant that it belongs to; none when empty."""


class AdmissionSettings(SettingsGroup):
    """What a fleet puts up with for a new job."""

    harm_max: NonNegativeFloat = 0.005
    """Late share that any other job may gain."""
    late_max: NonNegativeFloat = 0.01
    """Late share that the new job itself may have."""
    bill_max: NonNegativeFloat | None = None
    """What all jobs together may cost in a week; any amount when null."""

    def policy(self) -> AdmissionPolicy:
        """As the decision takes it."""
        return AdmissionPolicy(self.harm_max, self.late_max, self.bill_max)


class LendingSettings(SettingsGroup):
    """How carefully guaranteed and idle GPUs are lent to other jobs."""

    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    """A loan is out only where its owner's need stays below it with this probability."""
    return_s: NonNegativeFloat = 60.0
    """From asking a lent GPU back until it is free."""
    useful_s: NonNegativeFloat = 600.0
    """A loan that would be called back sooner than this is not begun; one that is out is kept."""


class FleetContents(SettingsGroup):
    """The GPUs that the jobs share. Nothing is shared, and nothing runs, where there are none."""

    gpu_types: dict[str, GpuTypeSettings] = Field(default_factory=dict)
    """GPUs by type: the name that the platform shows for a worker's GPU."""
    nodes: dict[str, NodeSettings] = Field(default_factory=dict)
    """Machines by name, where their places matter."""
    lost: list[str] = Field(default_factory=list)
    """Machines that should be there and are not: guarantees stay given, and are served from the rest."""
    tenants: dict[str, TenantSettings] = Field(default_factory=dict)
    """Tenants by name. With none, a job's tenant is only part of its name."""
    admission: AdmissionSettings = AdmissionSettings()
    lending: LendingSettings = LendingSettings()
    core_price: NonNegativeFloat = 0.05
    """What a CPU core costs an hour, in the currency of the GPUs' prices."""
    cores_max: PositiveInt = 32
    """The most cores that a worker may be advised to have."""

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        budget = self.budget()
        unknown = sorted(set(self.lost) - {node.name for node in budget.nodes})
        if unknown:
            raise ValueError(f"lost names {unknown[0]!r}, which is no node of the fleet")
        self._tenants()
        return self

    def terms(self) -> FleetTerms | None:
        """What is shared; None where nothing is."""
        budget = self.budget()
        lending = LendingTerms(self.lending.level, self.lending.return_s, self.lending.useful_s)
        return FleetTerms(budget, self._tenants(), lending=lending) if budget.nodes else None

    def budget(self) -> Budget:
        """The nodes named, and those counted. Raises InvalidFleet."""
        named = tuple(
            Node(name, node.gpu_type, node.gpus, tuple(node.within), node.switch_gpus)
            for name, node in self.nodes.items()
        )
        counted = tuple(
            node
            for kind, there in self.gpu_types.items()
            for node in Budget.counted({kind: there.gpus}, node_gpus=there.node_gpus).nodes
        )
        prices = {kind: there.price for kind, there in self.gpu_types.items()}
        return Budget((*named, *counted), prices, frozenset(self.lost))

    def _tenants(self) -> Tenants:
        return Tenants(tuple(Tenant(name, who.weight, who.parent) for name, who in self.tenants.items()))


class BatchSettings(SettingsGroup):
    """A pool of batch workers that has the GPUs which no job needs for now. None without a `gpu_type`."""

    gpu_type: str = ""
    """The type of its GPUs."""
    gpus_per_worker: PositiveFloat = 1.0
    """GPUs that one of its workers holds."""
    workers_max: PositiveInt = 1000
    """Never more workers than this."""
    standbys: bool = True
    """Whether it has the GPUs of jobs' standbys as well, while their forecasts say that those will not be
    needed before they could be back. Without, they are left to jobs alone."""
    pool: PoolSettings = PoolSettings()

    @model_validator(mode="after")
    def _can_be_sized(self) -> Self:
        if self.gpu_type and self.pool.kind in ("keda", "recommend"):
            raise ValueError(f"a batch pool is sized by Penstock; its pool.kind is {self.pool.kind}")
        if self.gpu_type and self.pool.kind == "process" and self.pool.command is None:
            raise ValueError("a batch pool of processes needs pool.command: Penstock's worker trains a job")
        return self


class PlatformSettings(SettingsGroup):
    """Where the fleet's machines are read from, so that nobody writes them down."""

    kind: Literal["none", "kubernetes", "ray"] = "none"
    """`kubernetes`: labels and conditions of its nodes. `ray`: resources and labels of its nodes. `none`:
    what is given here or in `file`."""
    every_s: PositiveFloat = 30.0
    """How often they are read."""
    place_within_s: PositiveFloat = 30.0
    """Kubernetes: a pod that waits at the gate `penstock/placement` is let through after this long even where
    no node is right, or nobody knows the nodes: the scheduler places it then."""
    kubeconfig: Path | None = None
    """How to reach the API server; as a pod does, else `KUBECONFIG` or `~/.kube/config`, when not given."""
    context: str = ""
    """The kubeconfig's context; its current one when empty."""
    ray_address: str = "auto"
    """The Ray cluster: `auto` for the one of this machine, `HOST:6379`, or `ray://HOST:10001`."""


class FleetSettings(FleetContents):
    """The GPUs that the jobs share. Nothing is shared, and nothing runs, where there are none."""

    file: Path | None = None
    """A YAML file with `gpu_types`, `nodes`, `lost`, `tenants`, `admission`, `lending`, `core_price` and
    `cores_max`, in the place of those here.
    It is read again when it changes; one that cannot be used leaves the last good one in force."""

    platform: PlatformSettings = PlatformSettings()
    batch: BatchSettings = BatchSettings()

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.file is not None and (self.gpu_types or self.nodes):
            raise ValueError("the fleet is given both here and in `file`; keep one of them")
        if self.platform.kind != "none" and (self.file is not None or self.budget().nodes):
            raise ValueError("the fleet is given here and read from `platform`; keep one of them")
        return self


class JobFleetSettings(SettingsGroup):
    """What a job may count on in a fleet."""

    tenant: str = ""
    """Who owns it."""
    weight: NonNegativeFloat = 1.0
    """Against the other jobs of its tenant; 0 is served from what all others leave."""
    guaranteed: Annotated[int, Field(ge=0)] | None = None
    """Workers that it has whenever it wants them; `scaling.workers_min` when not given."""
    gpu_types: list[str] = Field(default_factory=list)
    """Types that it may run on, the first being where its guarantee is held. When empty, those that
    `pool.by_gpu_type` names; any where that is empty too."""
    group: str = ""
    """Same owner, same model: what was learned of one job of a group is the prior for the next, in the
    place of a `scaling.rate_per_worker` that nobody gave."""
    cores: PositiveInt | None = None
    """CPU cores that a worker has. With it, and with workers that report their steps, the fleet says how
    many it should have and what share of a GPU."""

    def standing(
        self,
        name: str,
        *,
        gpus_per_worker: float,
        workers_min: int,
        workers_max: int,
        pool_types: tuple[str, ...] = (),
    ) -> Standing:
        """As the decision takes it. GPUs of a worker are rounded up to what a fleet gives out."""
        whole = next(
            (part for part in (0.25, 0.5, 1.0) if gpus_per_worker <= part), math.ceil(gpus_per_worker)
        )
        return Standing(
            name,
            self.tenant,
            self.weight,
            workers_min if self.guaranteed is None else self.guaranteed,
            tuple(self.gpu_types) or pool_types,
            float(whole),
            workers_max=workers_max,
            group=self.group,
        )
