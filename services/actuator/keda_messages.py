"""The messages of KEDA's external scaler (deploy/keda/externalscaler.proto), made at run time.

They are few and do not change: no generated code to keep, and no compiler to install.
"""

from __future__ import annotations

from functools import cache
from typing import Any

PACKAGE = "externalscaler"
SERVICE = f"{PACKAGE}.ExternalScaler"

_BOOL, _STRING, _INT64, _DOUBLE, _MESSAGE = 8, 9, 3, 1, 11
_ONE, _MANY = 1, 3

_FIELDS: dict[str, list[tuple[str, int, int, str]]] = {
    "ScaledObjectRef": [
        ("name", _STRING, _ONE, ""),
        ("namespace", _STRING, _ONE, ""),
        ("scalerMetadata", _MESSAGE, _MANY, "ScaledObjectRef.ScalerMetadataEntry"),
    ],
    "IsActiveResponse": [("result", _BOOL, _ONE, "")],
    "GetMetricSpecResponse": [("metricSpecs", _MESSAGE, _MANY, "MetricSpec")],
    "MetricSpec": [
        ("metricName", _STRING, _ONE, ""),
        ("targetSize", _INT64, _ONE, ""),
        ("targetSizeFloat", _DOUBLE, _ONE, ""),
    ],
    "GetMetricsRequest": [
        ("scaledObjectRef", _MESSAGE, _ONE, "ScaledObjectRef"),
        ("metricName", _STRING, _ONE, ""),
    ],
    "GetMetricsResponse": [("metricValues", _MESSAGE, _MANY, "MetricValue")],
    "MetricValue": [
        ("metricName", _STRING, _ONE, ""),
        ("metricValue", _INT64, _ONE, ""),
        ("metricValueFloat", _DOUBLE, _ONE, ""),
    ],
}
"""Name, type, label and message of each field, numbered from 1 in this order."""


@cache
def messages() -> dict[str, Any]:
    """Message classes by name. Needs protobuf."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: PLC0415 - an extra

    file = descriptor_pb2.FileDescriptorProto(
        name="penstock/externalscaler.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in _FIELDS.items():
        _describe(file.message_type.add(name=name), fields)
    entry = next(one for one in file.message_type if one.name == "ScaledObjectRef").nested_type.add(
        name="ScalerMetadataEntry"
    )
    _describe(entry, [("key", _STRING, _ONE, ""), ("value", _STRING, _ONE, "")])
    entry.options.map_entry = True
    pool = descriptor_pool.DescriptorPool()  # its own: another program's may know the package already
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in _FIELDS
    }


def _describe(message: Any, fields: list[tuple[str, int, int, str]]) -> None:
    for number, (name, kind, label, of) in enumerate(fields, start=1):
        field = message.field.add(name=name, number=number, type=kind, label=label)
        if of:
            field.type_name = f".{PACKAGE}.{of}"
