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
    weight: float
    """In the whole fleet, its tenants' weights included."""
    satisfaction: float
    """Share of what it asked for that its share trains."""
    binding: str
    worth: dict[str, float]
    """By GPU type: satisfaction that one more GPU would add."""
    worker: WorkerAdviceView | None
    """Null where the workers do not report their steps, or `fleet.cores` is not given."""


class FleetShareView(View):
    """How the fleet's GPUs are shared by the latest wishes."""

    method: str
    """`wishes` while there is enough for all."""
    types: list[FleetTypeView]
    jobs: list[AllotmentView]
    note: str
    trouble: str
    """Why the fleet is not shared as it should be, in words; empty when all is well."""
