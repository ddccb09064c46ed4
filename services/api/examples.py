"""Examples in the OpenAPI document. Each one is sent by a test."""

from __future__ import annotations

from typing import Any

JOB: dict[str, Any] = {
    "topic": "clicks",
    "slo": {"fresh_within_s": 60, "late_share_target": 0.01},
    "scaling": {"workers_min": 1, "workers_max": 16, "rate_per_worker": 2000},
}
PATCH: dict[str, Any] = {"scaling": {"workers_max": 24}}
OVERRIDE: dict[str, Any] = {"workers": 6, "lasting_s": 3600, "reason": "a campaign starts at nine"}
PAUSE: dict[str, Any] = {"reason": "the parameter server is being moved"}
ROLLBACK: dict[str, Any] = {"version": "01763395200000", "reason": "it missed every peak since noon"}
MODE: dict[str, Any] = {"mode": "recommend"}
ADMISSION: dict[str, Any] = {
    "name": "video",
    "rates": {"a100": 2000},
    "guaranteed": 2,
    "workers_max": 16,
    "hourly_per_s": [4000, 8000],
}
FEWER_NODES: dict[str, Any] = {"nodes": ["a100-0"]}
OTHER_GPUS: dict[str, Any] = {"gpus": {"a100": 8}}
WHAT_IF: dict[str, Any] = {"slo": {"fresh_within_s": 30, "late_share_target": 0.01}}
