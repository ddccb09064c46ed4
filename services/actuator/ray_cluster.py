"""The calls of Ray that a pool needs, with their errors translated. Needs the extra `ray`. Blocking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from services.actuator.ray_actors import KeeperSight
from services.control.errors import PoolUnavailable

NAMESPACE = "penstock"
_ANSWER_WITHIN_S = 10.0


class RayCluster:
    """A connection to a Ray cluster. One process has one; closing a pool leaves it to the others."""

    def __init__(self, address: str = "auto") -> None:
        if ray.is_initialized():
            return
        try:
            ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level="warning")
        except (ConnectionError, RayError, ValueError, RuntimeError) as error:
            raise PoolUnavailable(
                f"no Ray cluster answers at {address}: {error}; mend pool.ray.address"
            ) from error

    def nodes(self) -> list[dict[str, Any]]:
        """Every node, those that have died included. Raises PoolUnavailable."""
        with _translated("the nodes"):
            found: list[dict[str, Any]] = ray.nodes()
        return found

    def keeper(self, name: str, kind: type, *arguments: object, **options: object) -> Any:
        """The detached actor of that name, made when it is not there. It outlives this process."""
        with _translated(f"actor {name}"):
            made = ray.remote(kind).options(  # type: ignore[call-overload,unused-ignore]
                name=name, namespace=NAMESPACE, lifetime="detached", get_if_exists=True, **options
            )
            return made.remote(*arguments)

    def found(self, name: str) -> Any | None:
        """The actor of that name; None when there is none."""
        try:
            return ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            return None
        except RayError as error:
            raise PoolUnavailable(f"actor {name}: {error}") from error

    def answer(self, asked: Any, what: str) -> Any:
        """What an actor says. Raises PoolUnavailable when it is not heard in time."""
        with _translated(what):
            return ray.get(asked, timeout=_ANSWER_WITHIN_S)

    def answered(self, asked: Sequence[Any], *, within_s: float) -> list[Any]:
        """Those of the questions that have an answer, or whose actor is gone, by then."""
        if not asked:
            return []
        with _translated("workers"):
            done, _ = ray.wait(list(asked), num_returns=len(asked), timeout=within_s)
        return list(done)

    def sight(self, asked: Any) -> KeeperSight | None:
        """What a worker's actor said of it; None when the actor is gone, or could not run the command."""
        try:
            seen: KeeperSight = ray.get(asked, timeout=_ANSWER_WITHIN_S)
        except RayActorError:
            return None
        except RayError as error:
            raise PoolUnavailable(f"Ray: a worker: {error}") from error
        return seen

    def end(self, actor: Any) -> None:
        """End the actor, whatever it does; nothing happens to one that is gone."""
        with _translated("the end of an actor"):
            ray.kill(actor, no_restart=True)


def towards(node_id: str) -> NodeAffinitySchedulingStrategy:
    """Actors go to this node; elsewhere, and at once, where it is gone or full."""
    return NodeAffinitySchedulingStrategy(node_id, soft=True, _spill_on_unavailable=True)


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except GetTimeoutError as error:
        raise PoolUnavailable(f"Ray: {what}: no answer within {_ANSWER_WITHIN_S:g} s") from error
    except RayError as error:
        raise PoolUnavailable(f"Ray: {what}: {error}") from error
