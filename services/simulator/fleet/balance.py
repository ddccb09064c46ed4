"""How a fleet's demand lies on its types at best: a small linear programme, for quotas and for scale."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from services.simulator.trace import Floats


def balanced(needs: Floats, capacity: Floats) -> tuple[float, Floats]:
    """The least load z, and which part of each job lies on each type for it.

    `needs[j, k]` are the GPUs of type k that job j would take alone, infinite where it may not run.
    Minimise z: the parts of each job add up to 1, and on each type Σ part · need <= z · capacity.

    >>> load, parts = balanced(np.array([[2.0, 4.0], [np.inf, 3.0]]), np.array([4.0, 4.0]))
    >>> round(load, 3), parts.round(2).tolist()
    (0.75, [[1.0, 0.0], [0.0, 1.0]])
    """
    jobs, kinds = needs.shape
    may = np.isfinite(needs)
    at = np.flatnonzero(may.ravel())
    job_of, kind_of = np.divmod(at, kinds)
    many = len(at)
    sums = coo_array((np.ones(many), (job_of, np.arange(many))), shape=(jobs, many + 1))
    loads = coo_array(
        (
            np.concatenate([needs[may], -capacity]),
            (np.concatenate([kind_of, np.arange(kinds)]), np.concatenate([np.arange(many), [many] * kinds])),
        ),
        shape=(kinds, many + 1),
    )
    goal = np.append(np.zeros(many), 1.0)
    solved = linprog(goal, A_ub=loads, b_ub=np.zeros(kinds), A_eq=sums, b_eq=np.ones(jobs), method="highs")
    if solved.x is None:
        raise RuntimeError(f"the balance of a fleet was not found: {solved.message}")
    parts = np.zeros(jobs * kinds)
    parts[at] = solved.x[:-1]
    return float(solved.x[-1]), parts.reshape(jobs, kinds)
