"""How the fleet's GPUs are shared, as a document."""

from __future__ import annotations

from services.controller.views.view import View


class FleetTypeView(View):
    """GPUs of one type."""

    gpu_type: str
    gpus: int
    """There now."""
    lost: int
    """Should be there and are not."""
    price: float
    """Of one, an hour."""
    wished: float
    held: float
    """In use, or given."""
    guaranteed: float
    """What guarantees of jobs are held on."""
    lent: float
    """What others may have for now of guarantees that are idle, and of standbys."""
    batch: float
    """With the batch pool, until a job needs them."""
    contended: bool
    shadow_price: float
    """Weighted satisfaction that one more would add."""


class WorkerAdviceView(View):
    """What a worker should be made of so that a sample costs least and input is not the bottleneck."""

    advice: str
    """`add_cores` where the GPU waits for input; `right` where nothing is to be changed."""
    gpu_share: float
    cores: int


class AllotmentView(View):
    """What one job asked, what it has, and what bound it."""

    job: str
    tenant: str
    gpu_type: str
    asked: int
    share: int
    """Workers that it is to have by the latest wishes."""
    held: int
    """Workers that it has, or has been given."""
    guaranteed: int
    lent: int
    """Workers of its guarantee that others may have for now."""
    standbys_lent: int
    """Standbys that it does without for now: the batch pool may have their GPUs."""
    weight: float
    """In the whole fleet, its tenants' weights included."""
    satisfaction: float
    """Share of what it asked for that its share trains."""
    binding: str
    worth: dict[str, float]
    """By GPU type: satisfaction that one more GPU would add."""
    worker: WorkerAdviceView | None
    """Null where the workers do not report their steps, or `fleet.cores` is not given."""


class NodeView(View):
    """One machine, and whose workers are on it."""

    node: str
    gpu_type: str
    gpus: int
    lost: bool
    """Should be there and is not."""
    within: list[str]
    """What it stands in, the outermost first."""
    taken: float
    """GPUs that workers of the fleet's jobs hold there, where their pools tell the nodes."""
    jobs: dict[str, int]
    """Workers by job."""
    batch: int
    """Workers of the batch pool."""


class WaitingView(View):
    """A worker that waits at the gate for its node."""

    pod: str
    job: str
    waits_s: float
    why: str
    """`full`: no node that may take it has room. `kept`: there is room, and guarantees need all of it.
    `nodes_unknown`, `hindered`: `trouble` says more. `refused`: the scheduler does not take the node that was
    chosen."""
    node: str
    """The one that was chosen; empty where none was."""


class SeatedView(View):
    """A worker that was told its node."""

    pod: str
    job: str
    node: str
    """Empty where the scheduler was left to choose."""
    why: str
    """`reserved`: in the cells of its job's guarantee. `packed`, `spread`, or `scheduler`."""
    ago_s: float


class FleetShareView(View):
    """How the fleet's GPUs are shared by the latest wishes."""

    method: str
    """`wishes` while there is enough for all; else `heap`, `programme`, or `fallback`: the heap, because the
    programme found nothing in time."""
    gap: float
    """How far the programme's solution may be from the best, as a share."""
    types: list[FleetTypeView]
    jobs: list[AllotmentView]
    nodes: list[NodeView]
    """Every machine. What is on it is known of pools that tell it (Kubernetes, Ray)."""
    waiting: list[WaitingView]
    """Workers without a node, the longest first; on Kubernetes, those with the gate `penstock/placement`."""
    seated: list[SeatedView]
    """Those that were told a node lately, the latest first."""
    note: str
    trouble: str
    """Why the fleet is not shared as it should be, in words; empty when all is well."""
