"""The external scaler on its port: gRPC, with TLS where it is given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from services.actuator.keda_messages import SERVICE, messages
from services.actuator.keda_scaler import METRIC, KedaScaler, NotAllowed, Refused

log = structlog.get_logger()
_STOP_WITHIN_S = 1.0


class ScalerUnavailable(Exception):
    """The scaler cannot be served: its port is taken, or a file cannot be read."""


@dataclass(frozen=True, slots=True)
class ScalerTls:
    """PEM files. With `client_ca`, KEDA must present a certificate of it."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


@asynccontextmanager
async def serve_scaler(scaler: KedaScaler, address: str, tls: ScalerTls | None = None) -> AsyncIterator[int]:
    """Serve until the context ends; the port. Needs grpcio. Raises ScalerUnavailable."""
    import grpc.aio  # noqa: PLC0415 - an extra

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, _handlers(scaler)),))
    try:
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, _credentials(tls))
    except (OSError, RuntimeError) as error:
        raise ScalerUnavailable(f"the external scaler cannot listen on {address}: {error}") from error
    await server.start()
    log.info("scaler_serving", address=address, port=port, tls=tls is not None)
    try:
        yield port
    finally:
        await server.stop(_STOP_WITHIN_S)


def _handlers(scaler: KedaScaler) -> dict[str, Any]:
    import grpc  # noqa: PLC0415 - an extra

    of = messages()
    questions = _Questions(scaler, of)

    def one(answer: Callable[..., Any], asked: str, answered: str) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=of[asked].FromString,
            response_serializer=of[answered].SerializeToString,
        )

    return {
        "IsActive": one(questions.is_active, "ScaledObjectRef", "IsActiveResponse"),
        "GetMetricSpec": one(questions.metric_spec, "ScaledObjectRef", "GetMetricSpecResponse"),
        "GetMetrics": one(questions.metrics, "GetMetricsRequest", "GetMetricsResponse"),
        "StreamIsActive": grpc.unary_stream_rpc_method_handler(
            questions.stream_is_active,
            request_deserializer=of["ScaledObjectRef"].FromString,
            response_serializer=of["IsActiveResponse"].SerializeToString,
        ),
    }


@dataclass(frozen=True, slots=True)
class _Questions:
    """The scaler in gRPC's terms."""

    scaler: KedaScaler
    of: dict[str, Any]

    async def is_active(self, ref: Any, context: Any) -> Any:
        async with _telling(context):
            return self.of["IsActiveResponse"](
                result=await self.scaler.active(ref.name, dict(ref.scalerMetadata))
            )

    async def stream_is_active(self, ref: Any, context: Any) -> AsyncIterator[Any]:
        async with _telling(context):
            async for active in self.scaler.activity(ref.name, dict(ref.scalerMetadata)):
                yield self.of["IsActiveResponse"](result=active)

    async def metric_spec(self, ref: Any, context: Any) -> Any:
        """A constant target of 1: KEDA reads it only when the ScaledObject changes.

        Answered before there is a decision too: without it KEDA could not make its autoscaler.
        """
        async with _telling(context):
            self.scaler.admit(dict(ref.scalerMetadata))
            spec = self.of["MetricSpec"](metricName=METRIC, targetSizeFloat=1.0)
            return self.of["GetMetricSpecResponse"](metricSpecs=[spec])

    async def metrics(self, asked: Any, context: Any) -> Any:
        async with _telling(context):
            ref = asked.scaledObjectRef
            size = await self.scaler.size(ref.name, dict(ref.scalerMetadata))
            value = self.of["MetricValue"](
                metricName=asked.metricName or METRIC, metricValueFloat=float(size)
            )
            return self.of["GetMetricsResponse"](metricValues=[value])


@asynccontextmanager
async def _telling(context: Any) -> AsyncIterator[None]:
    """Refusals as gRPC statuses."""
    import grpc  # noqa: PLC0415 - an extra

    try:
        yield
    except NotAllowed as error:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
    except Refused as error:
        await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))


def _credentials(tls: ScalerTls) -> Any:
    import grpc  # noqa: PLC0415 - an extra

    pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
    authority = None if tls.client_ca is None else tls.client_ca.read_bytes()
    return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)
