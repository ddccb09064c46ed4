"""A Kubernetes API server in the test's own process: real HTTP, and faults on demand."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.actuator.kubernetes_controllers import DEPLOYMENTS, Controllers
from tests.actuator.kubernetes_store import Event, Refused, Store, Thing, merged, pointed, selected

_KINDS = {
    "/apis/apps/v1": [("deployments", "Deployment"), ("statefulsets", "StatefulSet")],
    "/apis/ray.io/v1": [("rayclusters", "RayCluster")],
    "/apis/jobset.x-k8s.io/v1alpha2": [("jobsets", "JobSet")],
}
_COLLECTION = re.compile(
    r"^(?P<collection>/apis?/.*?namespaces/[^/]+/[^/]+)(/(?P<name>[^/]+))?(/(?P<sub>scale))?$"
)
_ABSENT = "keda.sh"
_EVERYWHERE = re.compile(r"^/api/v1/(?P<plural>nodes|pods)(/(?P<name>[^/]+))?$")


@dataclass
class Fault:
    """The next request that fits is answered like this instead; `done`: after it was carried out."""

    method: str
    path: str
    code: int = 0
    """Zero: the connection is cut without an answer."""
    message: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    done: bool = False
    times: int = 1


@dataclass
class Call:
    method: str
    path: str
    body: Any


class ApiServer:
    """Serves a store. `faults` are used up in order; `calls` tells what was asked."""

    def __init__(self) -> None:
        self.store = Store()
        self.controllers = Controllers(self.store)
        self.faults: list[Fault] = []
        self.calls: list[Call] = []
        self.port = 0
        self.keda = False
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[Any] | None] = {}

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """As when it is restarted: every connection is cut."""
        assert self._server is not None
        self._server.close()
        self.cut()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), 5)

    def cut(self) -> None:
        """Break every connection, watches included."""
        for writer, task in list(self._connections.items()):
            writer.transport.abort()
            if task is not None:
                task.cancel()

    def writes(self) -> list[str]:
        return [f"{call.method} {call.path}" for call in self.calls if call.method != "GET"]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections[writer] = asyncio.current_task()
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                method, target, _ = head.split(" ", 2)
                length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
                content = await reader.readexactly(int(length[1])) if length else b""
                kind = re.search(r"content-type: (\S+)", head, re.IGNORECASE)
                await self._answer(writer, method, target, content, kind[1] if kind else "")
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, _Cut):
            writer.transport.abort()
        finally:
            del self._connections[writer]
            writer.close()

    async def _answer(
        self, writer: asyncio.StreamWriter, method: str, target: str, content: bytes, kind: str
    ) -> None:
        url = urlsplit(target)
        query = dict(parse_qsl(url.query))
        body = json.loads(content) if content else None
        self.calls.append(Call(method, url.path, body))
        fault = self._fault(method, target)
        try:
            if fault is not None and not fault.done:
                self._fail(fault)
            if query.get("watch") == "true":
                await self._watch(writer, url.path, query)
                return
            answer = self._do(method, url.path, query, body, kind)
            if fault is not None:
                self._fail(fault)
        except Refused as refused:
            status = {"kind": "Status", "code": refused.code, "message": str(refused)}
            _send(writer, refused.code, status, refused.headers)
        else:
            _send(writer, 200, answer, {})
        await writer.drain()

    def _fault(self, method: str, target: str) -> Fault | None:
        for fault in self.faults:
            if fault.method == method and re.search(fault.path, target):
                fault.times -= 1
                if not fault.times:
                    self.faults.remove(fault)
                return fault
        return None

    def _fail(self, fault: Fault) -> None:
        if not fault.code:
            raise _Cut
        raise Refused(fault.code, fault.message, **fault.headers)

    def _do(self, method: str, path: str, query: dict[str, str], body: Any, kind: str) -> Thing:
        if path in _KINDS:
            return {"resources": list(_resources(path))}
        if _ABSENT in path and not self.keda:
            raise Refused(404, "the server could not find the requested resource")
        everywhere = _EVERYWHERE.match(path)
        if everywhere is not None and everywhere["name"] is None:
            return self._list(path, query)
        where = _COLLECTION.match(path)
        if where is None:
            raise Refused(404, "the server could not find the requested resource")
        collection, name = where["collection"], where["name"]
        if name is None:
            return self._list(collection, query)
        before = self.store.get(collection, name)
        if method == "GET":
            return _scale(before) if where["sub"] else before
        if method == "DELETE":
            self._precondition(before, body)
            self.controllers.lose(name)
            return {"kind": "Status", "status": "Success"}
        after = self._changed(collection, before, method, body, kind)
        self.controllers.reconcile()
        return _scale(after) if where["sub"] else after

    def _changed(self, collection: str, before: Thing, method: str, body: Any, kind: str) -> Thing:
        if method == "PUT":
            replicas = body["spec"]["replicas"]
            after = {**before, "spec": {**before["spec"], "replicas": replicas}}
            return self.store.put(collection, after, expected=body["metadata"]["resourceVersion"])
        after = pointed(before, body) if "json-patch" in kind else merged(before, body)
        if collection.endswith("/pods"):
            check_pod_update(before, after)
        return self.store.put(collection, after, expected=after["metadata"]["resourceVersion"])

    def _precondition(self, before: Thing, options: Any) -> None:
        wanted = (options or {}).get("preconditions") or {}
        if any(before["metadata"][key] != value for key, value in wanted.items()):
            raise Refused(409, "the UID or ResourceVersion in the precondition does not match")

    def _list(self, collection: str, query: dict[str, str]) -> Thing:
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        collections = [path for path in self.store.things if _within(path, collection)]
        things = [thing for path in collections for thing in self.store.things[path].values()]
        items = [thing for thing in things if selected(thing, labels, fields)]
        start, limit = int(query.get("continue", 0)), int(query.get("limit", 1000))
        rest = {"continue": str(start + limit)} if start + limit < len(items) else {}
        metadata = {"resourceVersion": str(self.store.version), **rest}
        return {"metadata": metadata, "items": items[start : start + limit]}

    async def _watch(self, writer: asyncio.StreamWriter, path: str, query: dict[str, str]) -> None:
        if _ABSENT in path and not self.keda:
            raise Refused(404, "the server could not find the requested resource")
        since = int(query["resourceVersion"])
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        while True:
            written = self.store.written
            if since < self.store.compacted:
                gone = {"kind": "Status", "code": 410, "message": "too old resource version"}
                _chunk(writer, {"type": "ERROR", "object": gone})
                writer.write(b"0\r\n\r\n")
                return
            for event in list(self.store.events):
                if (
                    event.version > since
                    and _within(event.collection, path)
                    and selected(event.thing, labels, fields)
                ):
                    _chunk(writer, {"type": event.kind, "object": event.thing})
                    since = event.version
            await writer.drain()
            await written.wait()


class _Cut(Exception):
    """The connection breaks here."""


def _within(collection: str, asked: str) -> bool:
    """Whether a collection is what was asked for; without a namespace, those of all of them are."""
    everywhere = _EVERYWHERE.match(asked)
    plural = "" if everywhere is None else everywhere["plural"]
    return collection == asked or (plural == "pods" and collection.endswith("/pods"))


def check_pod_update(before: Thing, after: Thing) -> None:
    """What an API server lets nobody change of a pod: its gates may go, and while there are any its node
    affinity may be narrowed."""
    gates, left = (pod["spec"].get("schedulingGates") or [] for pod in (before, after))
    if any(gate not in gates for gate in left):
        raise Refused(422, "spec.schedulingGates: Forbidden: only deletion is allowed")
    terms, narrowed = (_terms(pod) for pod in (before, after))
    if terms == narrowed:
        return
    fits = len(terms) in (0, len(narrowed)) and all(
        new.get(key, [])[: len(old.get(key, []))] == old.get(key, [])
        for old, new in zip(terms, narrowed, strict=False)
        for key in ("matchExpressions", "matchFields")
    )
    if not gates or not fits:
        raise Refused(422, "spec: Forbidden: pod updates may not change fields other than ...")


def _terms(pod: Thing) -> Any:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get(
        "nodeSelectorTerms"
    ) or []


def _scale(thing: Thing) -> Thing:
    labels = thing["spec"]["template"]["metadata"]["labels"]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    return {
        "metadata": {
            "name": thing["metadata"]["name"],
            "resourceVersion": thing["metadata"]["resourceVersion"],
        },
        "spec": {"replicas": thing["spec"]["replicas"]},
        "status": {"selector": selector},
    }


def _resources(group: str) -> Any:
    for plural, kind in _KINDS[group]:
        yield {"name": plural, "kind": kind}
        if group == "/apis/apps/v1":
            yield {"name": f"{plural}/scale", "kind": "Scale"}


def _send(writer: asyncio.StreamWriter, code: int, body: Thing, headers: dict[str, str]) -> None:
    content = json.dumps(body).encode()
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {code} x\r\nContent-Length: {len(content)}\r\n{more}\r\n".encode() + content)


def _chunk(writer: asyncio.StreamWriter, event: Thing) -> None:
    line = json.dumps(event).encode() + b"\n"
    writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")


@asynccontextmanager
async def api_server() -> AsyncIterator[ApiServer]:
    """A server with nothing in it."""
    server = ApiServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


__all__ = ["DEPLOYMENTS", "ApiServer", "Event", "Fault", "api_server"]
