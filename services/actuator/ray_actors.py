"""What runs on a Ray cluster for a pool. The nodes import this: Penstock has to be installed there too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LAST_BYTES = 4096


class RecordKeeper:
    """Keeps the record of one job's pool: the charge, and the facts of each worker.

    An actor does one thing after the other, so a write that names what it saw is a compare-and-set.
    The record lies in the key-value store of the cluster's head, so that a keeper that is started again
    goes on with it: it lasts as long as Ray's own state does.
    """

    def __init__(self, job: str) -> None:
        self._key = f"penstock:{job}:record".encode()
        kept = _Shelf().get(self._key)
        record: dict[str, Any] = json.loads(kept) if kept else {"number": 0, "charge": "", "facts": {}}
        self._number: int = record["number"]
        self._charge: str = record["charge"]
        self._facts: dict[str, str] = record["facts"]

    def latest(self) -> tuple[int, str]:
        """The number and the content of the charge in force; (0, "") before the first."""
        return self._number, self._charge

    def write(self, charge: str, after: int) -> bool:
        """Whether `charge` is in force now: it is if that before it had the number `after`."""
        if self._number != after:
            return False
        self._number, self._charge = after + 1, charge
        self._keep()
        return True

    def facts(self) -> dict[str, str]:
        """What is kept of each worker."""
        return dict(self._facts)

    def note(self, worker: str, facts: str) -> None:
        """Keep this of it."""
        self._facts[worker] = facts
        self._keep()

    def forget(self, worker: str) -> None:
        """It is gone."""
        if self._facts.pop(worker, None) is not None:
            self._keep()

    def _keep(self) -> None:
        record = {"number": self._number, "charge": self._charge, "facts": self._facts}
        _Shelf().put(self._key, json.dumps(record).encode())


class _Shelf:
    """The cluster's own key-value store, as Ray's libraries use it."""

    def get(self, key: bytes) -> bytes | None:
        from ray.experimental.internal_kv import _internal_kv_get  # noqa: PLC0415 - on the cluster only

        found: bytes | None = _internal_kv_get(key)
        return found

    def put(self, key: bytes, content: bytes) -> None:
        from ray.experimental.internal_kv import _internal_kv_put  # noqa: PLC0415 - on the cluster only

        _internal_kv_put(key, content, overwrite=True)


class DemandKeeper:
    """Asks the cluster's autoscaler for what all pools together want: it heeds the last question alone."""

    def __init__(self) -> None:
        self._wanted: dict[str, list[dict[str, float]]] = {}

    def want(self, job: str, bundles: list[dict[str, float]]) -> int:
        """What the workers of `job` need; how many bundles were asked for in all."""
        from ray.autoscaler.sdk import request_resources  # noqa: PLC0415 - on the cluster only

        self._wanted[job] = bundles
        every = [bundle for wanted in self._wanted.values() for bundle in wanted]
        request_resources(bundles=every)
        return len(every)


@dataclass(frozen=True, slots=True)
class KeeperSight:
    """One worker at one look."""

    code: int | None
    """Its exit code; None while it runs."""
    ready: bool
    last_line: str
    node: str
    """The name of the host."""
    node_id: str
    """As Ray knows it."""
    pid: int


def _node_id() -> str:
    from ray import get_runtime_context  # noqa: PLC0415 - on the cluster only

    return str(get_runtime_context().get_node_id())


class WorkerKeeper:
    """Holds the resources of one worker and runs its command as a process beside it.

    The process has `PENSTOCK_READY_FILE`, and `PENSTOCK_OWNER_FD`: the end of that pipe tells it that
    its keeper is gone, with its node or by force.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-"))
        self._log = self._directory / "log"
        reading, self._owner = os.pipe()
        told = {
            "PENSTOCK_READY_FILE": str(self._directory / "ready"),
            "PENSTOCK_OWNER_FD": str(reading),
        }
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                list(command),
                env={**os.environ, **env, **told},
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(reading,),
                start_new_session=True,
            )
        os.close(reading)

    def sight(self) -> KeeperSight:
        """How it does."""
        code = self._process.poll()
        return KeeperSight(
            code=code,
            ready=(self._directory / "ready").exists(),
            last_line=self._last_line() if code is not None else "",
            node=os.uname().nodename,
            node_id=_node_id(),
            pid=self._process.pid,
        )

    def leave(self) -> None:
        """SIGTERM to the process alone."""
        if self._process.poll() is None:
            self._process.terminate()

    def end(self) -> None:
        """SIGKILL to the process and all that it started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._process.wait()

    def _last_line(self) -> str:
        lines = self._log.read_bytes()[-_LAST_BYTES:].decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return "".join(character if character.isprintable() else " " for character in last)[:200]
