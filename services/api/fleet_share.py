"""How the fleet's GPUs are shared, of the jobs that one may see."""

from __future__ import annotations

from estimator.fleet import InvalidFleet
from estimator.fleet.plan import Allotment
from services.api.fleet_share_view import AllotmentView, FleetShareView, FleetTypeView, WorkerAdviceView
from services.api.principal import Principal
from services.api.site import Site
from services.controller.fleet_desk import FleetState
from services.store.job_record import JobRecord


def shared(site: Site, who: Principal) -> FleetShareView | None:
    """How the GPUs are shared, of the jobs that the token is good for; None without a fleet."""
    fleet = site.controller.fleet
    try:
        state = fleet.state()
    except InvalidFleet as error:
        return FleetShareView(method="none", types=[], jobs=[], note="", trouble=str(error))
    if state is None:
        return None
    jobs = [_allotment(state, allotment, site) for allotment in state.plan.allotments]
    return FleetShareView(
        method=state.plan.method,
        types=_types(state),
        jobs=[job for job in jobs if who.good_for(job.job)],
        note=state.plan.note,
        trouble=state.trouble,
    )


def _types(state: FleetState) -> list[FleetTypeView]:
    budget, declared = state.budget, state.budget.declared
    wished: dict[str, float] = {}
    held: dict[str, float] = {}
    for allotment in state.plan.allotments:
        at = state.held[allotment.job]
        wished[at.gpu_type] = (
            wished.get(at.gpu_type, 0.0) + state.asked[allotment.job] * allotment.gpus_per_worker
        )
        held[at.gpu_type] = held.get(at.gpu_type, 0.0) + at.workers * allotment.gpus_per_worker
    return [
        FleetTypeView(
            gpu_type=kind,
            gpus=gpus,
            lost=declared[kind] - gpus,
            price=budget.price(kind),
            wished=wished.get(kind, 0.0),
            held=held.get(kind, 0.0),
            batch=state.batch.get(kind, 0.0),
            contended=kind in state.plan.contended,
            shadow_price=state.plan.prices.get(kind, 0.0),
        )
        for kind, gpus in budget.gpus.items()
    ]


def _allotment(state: FleetState, allotment: Allotment, site: Site) -> AllotmentView:
    at = state.held[allotment.job]
    record = site.controller.jobs.get(allotment.job.name)
    return AllotmentView(
        job=allotment.job.name,
        tenant=allotment.job.tenant,
        gpu_type=at.gpu_type,
        asked=state.asked[allotment.job],
        share=allotment.given.workers,
        held=at.workers,
        guaranteed=0 if record is None else record.settings.standing(record.name).guaranteed,
        lent=state.lent.get(allotment.job, 0),
        weight=allotment.weight,
        satisfaction=allotment.satisfaction,
        binding=allotment.binding,
        worth=dict(allotment.worth),
        worker=None if record is None else _worker(site, record),
    )


def _worker(site: Site, record: JobRecord) -> WorkerAdviceView | None:
    """What one of its workers should be made of; None where nobody can tell."""
    shape = site.controller.fleet.advice(record.name, record.settings)
    if shape is None:
        return None
    return WorkerAdviceView(advice=shape.advice, gpu_share=shape.gpu_share, cores=shape.cores)
