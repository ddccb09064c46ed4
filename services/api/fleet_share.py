"""How the fleet's GPUs are shared, of the jobs that one may see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from estimator.fleet import InvalidFleet, JobId, Standing
from estimator.fleet.guarantees import homes_of
from estimator.fleet.plan import Allotment
from services.api.fleet_share_view import (
    AllotmentView,
    FleetShareView,
    FleetTypeView,
    NodeView,
    SeatedView,
    WaitingView,
    WorkerAdviceView,
)
from services.api.principal import Principal
from services.api.site import Site
from services.control.fleet_packing import NodeSeats
from services.controller.fleet_desk import FleetState


def shared(site: Site, who: Principal) -> FleetShareView | None:
    """How the GPUs are shared, of the jobs that the token is good for; None without a fleet."""
    try:
        state = site.controller.fleet.state()
        standings = {} if state is None else _standings(site, state)
        homes = {} if state is None else homes_of(standings.values(), state.budget)
    except InvalidFleet as error:
        return FleetShareView(
            method="none",
            gap=0.0,
            types=[],
            jobs=[],
            nodes=[],
            waiting=[],
            seated=[],
            note="",
            trouble=str(error),
        )
    if state is None:
        return None
    jobs = [
        _allotment(state, one, standings.get(one.job), _worker(site, one.job))
        for one in state.plan.allotments
    ]
    return FleetShareView(
        method=state.plan.method,
        gap=state.plan.gap,
        types=_types(state, standings, homes),
        jobs=[job for job in jobs if who.good_for(job.job)],
        nodes=[_node(state, seats, who) for seats in state.nodes],
        waiting=[WaitingView.like(one) for one in state.waiting if _may_see(one.job, who)],
        seated=[
            SeatedView(pod=one.pod, job=one.job, node=one.node, why=one.why, ago_s=ago_s)
            for one, ago_s in state.seated
            if _may_see(one.job, who)
        ],
        note=state.plan.note,
        trouble=state.trouble,
    )


def _standings(site: Site, state: FleetState) -> dict[JobId, Standing]:
    """Of the jobs in a plan; one that was deleted meanwhile has none."""
    records = {one.job: site.controller.jobs.get(one.job.name) for one in state.plan.allotments}
    return {job: one.settings.standing(one.name) for job, one in records.items() if one is not None}


def _may_see(job: str, who: Principal) -> bool:
    """Pods of no job are shown to those who may see every job."""
    return who.jobs is None or (bool(job) and who.good_for(job))


def _node(state: FleetState, seats: NodeSeats, who: Principal) -> NodeView:
    node = seats.node
    return NodeView(
        node=node.name,
        gpu_type=node.gpu_type,
        gpus=node.gpus,
        lost=seats.lost,
        within=list(node.within),
        taken=seats.taken,
        jobs={job.name: count for job, count in sorted(seats.workers.items()) if who.good_for(job.name)},
        batch=state.batch_nodes.get(node.name, 0),
    )


def _types(
    state: FleetState, standings: Mapping[JobId, Standing], homes: Mapping[JobId, str]
) -> list[FleetTypeView]:
    budget, declared = state.budget, state.budget.declared
    sums = {name: defaultdict[str, float](float) for name in ("wished", "held", "guaranteed", "lent")}
    for allotment in state.plan.allotments:
        job, each, at = allotment.job, allotment.gpus_per_worker, state.held[allotment.job]
        sums["wished"][at.gpu_type] += state.asked[job] * each
        sums["held"][at.gpu_type] += at.workers * each
        sums["lent"][at.gpu_type] += state.standbys_lent.get(job, 0) * each
        if job in homes:
            sums["guaranteed"][homes[job]] += standings[job].guaranteed * each
            sums["lent"][homes[job]] += state.lent.get(job, 0) * each
    return [
        FleetTypeView(
            gpu_type=kind,
            gpus=gpus,
            lost=declared[kind] - gpus,
            price=budget.price(kind),
            batch=state.batch.get(kind, 0.0),
            contended=kind in state.plan.contended,
            shadow_price=state.plan.prices.get(kind, 0.0),
            **{name: by_type[kind] for name, by_type in sums.items()},
        )
        for kind, gpus in budget.gpus.items()
    ]


def _allotment(
    state: FleetState, allotment: Allotment, standing: Standing | None, worker: WorkerAdviceView | None
) -> AllotmentView:
    at = state.held[allotment.job]
    return AllotmentView(
        job=allotment.job.name,
        tenant=allotment.job.tenant,
        gpu_type=at.gpu_type,
        asked=state.asked[allotment.job],
        share=allotment.given.workers,
        held=at.workers,
        guaranteed=0 if standing is None else standing.guaranteed,
        lent=state.lent.get(allotment.job, 0),
        standbys_lent=state.standbys_lent.get(allotment.job, 0),
        weight=allotment.weight,
        satisfaction=allotment.satisfaction,
        binding=allotment.binding,
        worth=dict(allotment.worth),
        worker=worker,
    )


def _worker(site: Site, job: JobId) -> WorkerAdviceView | None:
    """What one of its workers should be made of; None where nobody can tell."""
    record = site.controller.jobs.get(job.name)
    shape = None if record is None else site.controller.fleet.advice(record.name, record.settings)
    if shape is None:
        return None
    return WorkerAdviceView(advice=shape.advice, gpu_share=shape.gpu_share, cores=shape.cores)
