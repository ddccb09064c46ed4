"""Who else sizes a target, as their own objects say."""

from __future__ import annotations

from typing import Any

import pytest

from services.actuator.kubernetes_rivals import read_scaled_object

PAUSED, PAUSED_AT = "autoscaling.keda.sh/paused", "autoscaling.keda.sh/paused-replicas"


@pytest.mark.parametrize(
    ("annotations", "status", "paused"),
    [
        ({}, {}, False),
        ({PAUSED: "true"}, {}, True),
        ({PAUSED: "True"}, {}, True),
        ({PAUSED: "yes"}, {}, True),
        ({PAUSED: "false"}, {}, False),
        ({PAUSED_AT: "4"}, {}, False),
        ({PAUSED_AT: "4"}, {"pausedReplicaCount": 4}, True),
        ({PAUSED_AT: "0", PAUSED: "false"}, {"pausedReplicaCount": 0}, True),
    ],
)
def test_a_scaled_object_is_paused_where_keda_takes_it_for_paused(
    annotations: dict[str, str], status: dict[str, Any], paused: bool
) -> None:
    scaled = {
        "metadata": {"name": "ads", "annotations": annotations},
        "spec": {"scaleTargetRef": {"name": "ads"}},
        "status": status,
    }

    assert (read_scaled_object(scaled) is None) == paused
