"""Plants and their true curves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from services.simulator.errors import PlantInvalid
from services.simulator.families import FAMILIES, fewest_workers, true_curve
from services.simulator.plant import Handover, Plant, load_plant, plant_of


def test_the_default_curve_is_the_documented_one() -> None:
    curve = true_curve(Plant(rate_per_worker=10.0, contention=0.1), 4)

    assert curve.tolist() == pytest.approx([0.0, 10.0, 20 / 1.1, 30 / 1.2, 40 / 1.3])


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_one_worker_trains_its_rate_and_no_pool_more_than_its_sum(family: str) -> None:
    curve = true_curve(plant_of({"family": family, "rate_per_worker": 10.0}), 40)

    assert curve[0] == 0.0
    assert curve[1] == pytest.approx(10.0, rel=1e-3)
    assert np.all(curve <= 10.0 * np.arange(41) * (1 + 1e-9))


def test_one_family_falls_as_workers_are_added() -> None:
    curve = true_curve(plant_of({"family": "retrograde", "coherency": 0.005}), 60)

    assert curve.argmax() < 30
    assert curve[60] < curve.max()
    assert fewest_workers(curve, 1e9, at_least=1) == curve.argmax()


def test_input_bound_hosts_make_a_staircase() -> None:
    curve = true_curve(plant_of({"family": "input-cpu", "contention": 0.0, "rate_per_worker": 10.0}), 8)

    assert np.diff(curve).tolist() == pytest.approx([10, 10, 10, 0, 10, 10, 10, 0])


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("leases", Handover.LEASES),
        ("group", Handover.EAGER),
        ({"group": "cooperative"}, Handover.COOPERATIVE),
        ("restart", Handover.RESTART),
    ],
)
def test_shuffles_by_their_names(given: object, meant: Handover) -> None:
    assert plant_of({"shuffle": given}).shuffle is meant


def test_a_lognormal_start_up_has_its_median_and_quantile() -> None:
    plant = plant_of({"startup_s": {"median": 113.0, "p90": 13_709.0}})

    assert (plant.startup_typical_s, plant.startup_late_s) == (113.0, 13_709.0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"worker_max": 4}, "worker_max: no such setting"),
        ({"slo_s": -1}, "slo_s"),
        ({"workers_min": 5, "workers_max": 4}, "above workers_max"),
        ({"family": "linear"}, "family"),
        ({"startup_s": {"median": 10, "p90": 5}}, "p90 (5) is below the median"),
        ({"shuffle": "cards"}, "shuffle"),
    ],
)
def test_what_cannot_be_is_named(settings: dict[str, object], said: str) -> None:
    with pytest.raises(PlantInvalid) as caught:
        plant_of(settings)

    assert said in str(caught.value)


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plant.yaml"
    path.write_text("- 1\n", encoding="utf-8")

    with pytest.raises(PlantInvalid, match="mapping"):
        load_plant(path)
