"""KEDA's contract, asked by a client that is generated from the contract's own file."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.actuator.keda_pool import KedaPool
from services.actuator.keda_scaler import KedaScaler
from services.actuator.keda_server import ScalerTls, ScalerUnavailable, serve_scaler
from services.actuator.kubernetes_target import TargetSpec
from services.actuator.wish import MemoryWishes, Wish
from services.control.errors import Fenced, Rejected, StateUnavailable
from services.control.types import Victims
from services.controller.scaler import scaler_served
from services.settings.root import KedaSettings, RedisSettings
from services.store.connect import connect
from services.store.keys import Keys
from services.store.wishes import RedisWishes
from tests.actuator.clusters import ClusterRig, cluster_rig, workload
from tests.actuator.kubernetes_controllers import DEPLOYMENTS, NAMESPACE
from tests.actuator.kubernetes_server import api_server
from tests.actuator.rigs import ask

grpc = pytest.importorskip("grpc", reason="needs grpcio: pip install 'penstock[keda]'")
pytest.importorskip("grpc_tools", reason="needs grpcio-tools")

SCALED_OBJECTS = f"/apis/keda.sh/v1alpha1/namespaces/{NAMESPACE}/scaledobjects"
SESAME = "open sesame"
PROTO = Path(__file__).parents[2] / "deploy" / "keda" / "externalscaler.proto"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """Messages and stub, as protoc makes them."""
    out = tmp_path_factory.mktemp("keda")
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO.parent}"),
            *(f"--python_out={out}", f"--grpc_python_out={out}", PROTO.name),
        ],
        check=True,
    )
    sys.path.insert(0, str(out))
    try:
        yield (
            importlib.import_module("externalscaler_pb2"),
            importlib.import_module("externalscaler_pb2_grpc"),
        )
    finally:
        sys.path.remove(str(out))


class Asking:
    """KEDA, asking."""

    def __init__(self, generated: tuple[Any, Any], channel: Any) -> None:
        self.messages, services = generated
        self.stub = services.ExternalScalerStub(channel)

    def ref(self, **metadata: str) -> Any:
        return self.messages.ScaledObjectRef(name="ads", namespace="train", scalerMetadata=metadata)

    async def size(self, **metadata: str) -> float:
        request = self.messages.GetMetricsRequest(
            scaledObjectRef=self.ref(**metadata), metricName="penstock-workers"
        )
        (value,) = (await self.stub.GetMetrics(request)).metricValues
        assert (value.metricName, value.metricValue) == ("penstock-workers", 0), "integers stay 0"
        return float(value.metricValueFloat)

    async def refusal(self, **metadata: str) -> tuple[Any, str]:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await self.size(**metadata)
        return refused.value.code(), refused.value.details()


@asynccontextmanager
async def asking(generated: tuple[Any, Any], wishes: Any, secret: str = "") -> AsyncIterator[Asking]:
    async with (
        serve_scaler(KedaScaler(wishes, secret), "127.0.0.1:0") as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield Asking(generated, channel)


async def test_the_size_is_told_against_a_constant_target(generated: tuple[Any, Any]) -> None:
    wishes = MemoryWishes()
    await wishes.publish("ads", ask(7))
    async with asking(generated, wishes) as keda:
        (spec,) = (await keda.stub.GetMetricSpec(keda.ref())).metricSpecs
        assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == ("penstock-workers", 0, 1.0)
        assert await keda.size() == 7.0

        await wishes.publish("ads", ask(21))

        assert await keda.size() == 21.0


async def test_the_job_is_named_by_the_trigger_or_by_the_scaled_object(generated: tuple[Any, Any]) -> None:
    wishes = MemoryWishes()
    await wishes.publish("ads", ask(2))
    await wishes.publish("shop", ask(5))
    async with asking(generated, wishes) as keda:
        assert (await keda.size(), await keda.size(job="shop")) == (2.0, 5.0)


async def test_activity_is_pushed_when_it_changes(generated: tuple[Any, Any]) -> None:
    wishes = MemoryWishes()
    await wishes.publish("ads", ask(0))
    async with asking(generated, wishes) as keda:
        assert not (await keda.stub.IsActive(keda.ref())).result
        stream = keda.stub.StreamIsActive(keda.ref())
        told = [(await stream.read()).result]

        for size in (3, 4, 0):
            await wishes.publish("ads", ask(size))
            if size != 4:  # one more of what is active already is no news
                told.append((await asyncio.wait_for(stream.read(), 20)).result)

        assert told == [False, True, False]
        stream.cancel()


async def test_nothing_is_made_up(generated: tuple[Any, Any]) -> None:
    class Away(MemoryWishes):
        async def latest(self, job: str) -> Wish | None:
            raise StateUnavailable("Redis does not answer")

    async with asking(generated, MemoryWishes()) as keda:
        assert (await keda.stub.GetMetricSpec(keda.ref())).metricSpecs, "the target needs no decision"
        code, told = await keda.refusal()
        assert (code, told) == (
            grpc.StatusCode.UNAVAILABLE,
            "no size was decided for job ads yet; is its pool.kind keda?",
        )
    async with asking(generated, Away()) as keda:
        assert await keda.refusal() == (grpc.StatusCode.UNAVAILABLE, "Redis does not answer")


async def test_the_secret_is_asked_for(generated: tuple[Any, Any]) -> None:
    wishes = MemoryWishes()
    await wishes.publish("ads", ask(2))
    async with asking(generated, wishes, secret=SESAME) as keda:
        assert await keda.size(secret=SESAME) == 2.0
        assert await keda.size(secretFromEnv=SESAME) == 2.0, "as KEDA passes it on from a variable"
        assert await keda.size(secretFromEnv=f"{SESAME}\n") == 2.0, "whose secret was made from a file"
        for wrong in ({}, {"secret": "sesame"}):
            code, _ = await keda.refusal(**wrong)
            assert code is grpc.StatusCode.UNAUTHENTICATED


def certificate(directory: Path, name: str) -> ScalerTls:
    """For localhost, signed by itself."""
    made = ScalerTls(directory / f"{name}.pem", directory / f"{name}-key.pem")
    request = (
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    )
    files = ("-keyout", made.key, "-out", made.certificate)
    names = ("-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    subprocess.run([*request, *files, *names], check=True, capture_output=True)
    return made


@pytest.fixture
def tls(tmp_path: Path) -> ScalerTls:
    return certificate(tmp_path, "scaler")


async def test_it_is_served_with_tls(generated: tuple[Any, Any], tls: ScalerTls) -> None:
    wishes = MemoryWishes()
    await wishes.publish("ads", ask(2))
    async with serve_scaler(KedaScaler(wishes), "localhost:0", tls) as port:
        trusted = grpc.ssl_channel_credentials(tls.certificate.read_bytes())
        async with grpc.aio.secure_channel(f"localhost:{port}", trusted) as channel:
            assert await Asking(generated, channel).size() == 2.0


async def test_with_a_client_authority_only_its_clients_are_answered(
    generated: tuple[Any, Any], tls: ScalerTls, tmp_path: Path
) -> None:
    known, stranger = (certificate(tmp_path, name) for name in ("keda", "stranger"))
    wishes = MemoryWishes()
    await wishes.publish("ads", ask(2))

    def credentials(client: ScalerTls | None) -> Any:
        own = () if client is None else (client.key.read_bytes(), client.certificate.read_bytes())
        return grpc.ssl_channel_credentials(tls.certificate.read_bytes(), *own)

    mutual = replace(tls, client_ca=known.certificate)
    async with serve_scaler(KedaScaler(wishes), "localhost:0", mutual) as port:
        async with grpc.aio.secure_channel(f"localhost:{port}", credentials(known)) as channel:
            assert await Asking(generated, channel).size() == 2.0
        for refused in (stranger, None):
            async with grpc.aio.secure_channel(f"localhost:{port}", credentials(refused)) as channel:
                code, _ = await Asking(generated, channel).refusal()
                assert code is grpc.StatusCode.UNAVAILABLE


async def test_any_replica_answers_with_what_the_leader_published(
    generated: tuple[Any, Any], redis_url: str
) -> None:
    leader, follower = (connect(RedisSettings(url=redis_url)) for _ in range(2))
    try:
        async with asking(generated, RedisWishes(follower, Keys("test"))) as keda:
            code, _ = await keda.refusal()
            assert code is grpc.StatusCode.UNAVAILABLE, "before the first decision"
            await RedisWishes(leader, Keys("test")).publish("ads", ask(0))
            stream = keda.stub.StreamIsActive(keda.ref())
            assert not (await asyncio.wait_for(stream.read(), 20)).result

            await RedisWishes(leader, Keys("test")).publish("ads", ask(4))

            assert (await asyncio.wait_for(stream.read(), 20)).result
            assert await keda.size() == 4.0
            stream.cancel()
    finally:
        await leader.aclose()
        await follower.aclose()


async def test_an_empty_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("\n", encoding="utf-8")
    settings = KedaSettings(port=1, secret_file=tmp_path / "secret")

    with pytest.raises(ScalerUnavailable, match="is empty: anybody would be let in"):
        async with scaler_served(settings, MemoryWishes()):
            pass


def keda_pool(rig: ClusterRig, wishes: MemoryWishes) -> KedaPool:
    return KedaPool("ads", replace(rig.pool._place, namespace=NAMESPACE), wishes)


async def test_a_resize_is_a_wish_and_the_pods_are_read_from_kubernetes() -> None:
    wishes = MemoryWishes()
    async with cluster_rig() as rig, keda_pool(rig, wishes) as pool:
        before = rig.server.writes()
        await pool.resize(ask(3, fence=2))

        state = await pool.observe()
        assert (state.requested, state.workers, rig.replicas) == (3, (), 0)
        assert rig.server.writes() == before, "nothing is written to Kubernetes"
        assert pool.capabilities().victims is Victims.NONE
        assert state.trouble.startswith("no ScaledObject sizes Deployment ads")
        with pytest.raises(Fenced):
            await pool.resize(ask(5, fence=1))


async def test_no_smaller_size_is_wished_for_where_pods_would_be_killed_before_they_have_drained() -> None:
    wishes = MemoryWishes()
    async with api_server() as server:
        target = workload("ads", replicas=3)
        target["spec"]["template"]["spec"] = {"terminationGracePeriodSeconds": 10}
        server.store.put(DEPLOYMENTS, target)
        place = replace(ClusterRig(server, TargetSpec("ads")).pool._place, drain_s=30.0)
        async with KedaPool("ads", place, wishes) as pool:
            with pytest.raises(Rejected, match=r"get 10 s to leave and pool\.drain_s is 30"):
                await pool.resize(ask(2))
            await pool.resize(ask(5))
            with pytest.raises(Rejected, match="terminationGracePeriodSeconds"):
                await pool.resize(ask(4))

            state = await pool.observe()
    assert (state.requested, "get 10 s to leave" in state.trouble) == (5, True)


async def test_the_bounds_of_the_scaled_object_are_those_of_the_pool() -> None:
    """What KEDA would not carry out is not planned."""
    async with api_server() as server:
        server.keda = True
        server.store.put(DEPLOYMENTS, workload("ads"))
        spec = {"scaleTargetRef": {"name": "ads"}, "minReplicaCount": 2, "maxReplicaCount": 12}
        server.store.put(SCALED_OBJECTS, {"metadata": {"name": "ads"}, "spec": spec})
        rig = ClusterRig(server, TargetSpec("ads"))
        async with keda_pool(rig, MemoryWishes()) as pool:
            state = await pool.observe()

            assert (state.least, state.most, state.trouble) == (2, 12, "")
