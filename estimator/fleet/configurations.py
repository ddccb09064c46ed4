"""The configurations a programme may choose from: few enough to solve, none that matters left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from estimator.fleet.budget import Budget
from estimator.fleet.claims import EXACT, Claim
from estimator.fleet.standing import NOTHING, Configuration
from estimator.fleet.wish import ShareRules

THRIFT = 1e-3
"""What using the whole fleet costs in the objective, against 1 for one job wholly satisfied: enough to
prefer the cheaper of two that satisfy alike, too little to leave anybody unsatisfied."""
CALM = 1e-4
"""What staying as it is adds: between equals nothing is moved."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A configuration that a job may be given, what it takes and what it is worth."""

    at: Configuration
    gpus: float
    value: float


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every job's choices alike."""

    rules: ShareRules
    price_shares: Mapping[str, float]
    """What a GPU of a type costs, as a share of what all of them cost."""
    node_sizes: Mapping[str, tuple[int, ...]]
    """The largest first."""

    @classmethod
    def of(cls, budget: Budget, rules: ShareRules) -> Terms:
        """Read once a tick."""
        whole = max(budget.worth_per_hour, EXACT)
        kinds = budget.gpus
        return cls(
            rules,
            {kind: budget.price(kind) / whole for kind in kinds},
            {kind: tuple(sorted(budget.node_sizes(kind), reverse=True)) for kind in kinds},
        )


def choices_of(claim: Claim, terms: Terms) -> tuple[Choice, ...]:
    """What one job may be given: its pin alone, else all that is no worse than its guarantee.

    Without a guarantee nothing at all is among them; so is what it promises, with one.
    """
    if claim.pinned is not None:
        return (_choice(claim, claim.pinned, terms),)
    floor = claim.satisfaction(claim.promised) - EXACT
    candidates = [NOTHING] + [
        Configuration(kind, workers)
        for kind, most in claim.most.items()
        for workers in sorted(counts_of(claim, kind, most, terms))
    ]
    return tuple(
        _choice(claim, at, terms)
        for at in candidates
        if claim.satisfaction(at) >= floor and (at or not claim.promised)
    )


def counts_of(claim: Claim, gpu_type: str, most: int, terms: Terms) -> frozenset[int]:
    """Worker counts on one type, those that matter most first, no more than `counts_max`.

    The guarantee and the wish are always among them.
    """
    least = claim.least(gpu_type)
    counts: dict[int, None] = {}
    for count in _in_order(claim, gpu_type, most, terms):
        if least <= count <= most:
            counts[count] = None
        if len(counts) == terms.rules.counts_max:
            break
    return frozenset(counts)


def _in_order(claim: Claim, gpu_type: str, most: int, terms: Terms) -> Iterator[int]:
    if claim.promised.gpu_type == gpu_type:
        yield claim.promised.workers
    yield most
    current = claim.wish.current
    if current.gpu_type == gpu_type:
        yield current.workers
    yield _enough(claim, gpu_type, most)
    yield claim.least(gpu_type)
    if current.gpu_type == gpu_type:
        yield current.workers + 1
        yield current.workers - 1
    for size in terms.node_sizes[gpu_type]:
        yield int(most * claim.wish.job.gpus_per_worker // size * size // claim.wish.job.gpus_per_worker)
    power = 1 << most.bit_length()
    while power:
        yield power
        power >>= 1


def _enough(claim: Claim, gpu_type: str, most: int) -> int:
    """The fewest workers that satisfy as well as the wish does."""
    wanted = claim.satisfaction(Configuration(gpu_type, most)) - EXACT
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if claim.satisfaction(Configuration(gpu_type, middle)) >= wanted:
            high = middle
        else:
            low = middle + 1
    return low


def _choice(claim: Claim, at: Configuration, terms: Terms) -> Choice:
    gpus = claim.gpus(at)
    value = claim.weight * utility(claim.after_resize(at), terms.rules)
    bill = gpus * terms.price_shares[at.gpu_type] if at else 0.0
    stays = CALM if at == claim.wish.current else 0.0
    return Choice(at, gpus, value - THRIFT * bill + stays)


def utility(satisfaction: float, rules: ShareRules) -> float:
    """What a satisfaction is worth: concave, so that the first GPUs of a poor job beat the last of a rich
    one, with a prize for the demand met, since a job that trains 95 % of what arrives is late all the same.

    >>> utility(1.0, ShareRules()), utility(0.0, ShareRules())
    (1.0, 0.0)
    """
    met = rules.met if satisfaction >= 1.0 - EXACT else 0.0
    return float((1.0 - rules.met) * satisfaction**rules.power + met)
