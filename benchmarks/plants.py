"""The plants that policies are compared on."""

from __future__ import annotations

from collections.abc import Mapping

from services.simulator.plant import Plant, Startup

PEAK_WORKERS = 20
WARMUP_DAYS = 7.0


def _plant(**settings: object) -> Plant:
    return Plant.model_validate({"peak_workers": PEAK_WORKERS, "warmup_days": WARMUP_DAYS, **settings})


PLANTS: Mapping[str, Plant] = {
    "hot-join": _plant(startup_s=180.0, pause_s=0.0, shuffle="leases"),
    "cooperative": _plant(startup_s=180.0, pause_s=2.0, shuffle="cooperative"),
    "rebalance-5": _plant(startup_s=180.0, pause_s=5.0, shuffle="eager"),
    "rebalance-10": _plant(startup_s=180.0, pause_s=10.0, shuffle="eager"),
    "restart": _plant(startup_s=300.0, pause_s=60.0, shuffle="restart"),
    "large": _plant(startup_s=180.0, pause_s=0.0, shuffle="leases", peak_workers=5 * PEAK_WORKERS),
    "slow-start": _plant(startup_s=900.0, pause_s=0.0, shuffle="leases"),
    "gusty": _plant(startup_s=180.0, pause_s=0.0, shuffle="leases", gusts=0.3),
    "scarce": _plant(startup_s=Startup(median=113.0, p90=13_709.0), pause_s=0.0, shuffle="leases"),
}
"""Start-up and what waits at a resize: Penstock's leases; Kafka's cooperative groups (about 2 s for a
moved partition, measured on a real broker); eager groups (what users report); checkpoint and restart;
leases in a pool of a hundred; a node that is made first and an image of gigabytes; traffic that comes in
gusts; and the wait for a V100 that Alibaba's trace shows."""
