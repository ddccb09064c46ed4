"""Trained models on disk: what is written is what is read, or it is refused."""

from __future__ import annotations

import errno
import json
import random
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from forecasting.boosting import Boosting
from forecasting.fleet import Trained
from forecasting.learned import FleetModel
from forecasting.network_lessons import TrainedNetwork
from services.forecaster.artefacts import FORMAT, KEPT, ArtefactInvalid, ArtefactStore, Manifest, NoArtefact
from tests.forecasting.worlds import GRID, history, regression, rhythm, untrained_patchtst

BOTH = ("regression", "patchtst")


def written(
    store: ArtefactStore,
    version: str,
    *,
    models: tuple[str, ...] = BOTH,
    boosting: Boosting | None = None,
    publish: bool = True,
) -> str:
    net = untrained_patchtst()
    manifest = Manifest(
        version=version,
        step_s=GRID.step_s,
        horizon_s=GRID.horizon_s,
        season_s=GRID.season_s,
        trained_to_s=0.0,
        cpu_s=1.0,
        topics=1,
        models=models,
        networks=(asdict(net.spec),),
    )
    network = TrainedNetwork(net.spec, net.weights, net.offsets, 0.0, 1)
    store.write(manifest, regression=regression(), boosting=boosting, networks=[network])
    if publish:
        store.publish(version)
    return version


@pytest.fixture
def store(tmp_path: Path) -> ArtefactStore:
    return ArtefactStore(tmp_path)


def test_models_come_back_as_they_went(store: ArtefactStore) -> None:
    written(store, "1")

    manifest, models = store.load("1", GRID)

    assert [model.name for model in models] == ["regression", "patchtst"]
    assert manifest.models == ("regression", "patchtst")
    past = history(rhythm(9))
    originals: tuple[FleetModel, ...] = (regression(), untrained_patchtst())
    for model, original in zip(models, originals, strict=True):
        np.testing.assert_array_equal(
            Trained(model, GRID).forecast(past, horizon_s=3600.0).paths,
            Trained(original, GRID).forecast(past, horizon_s=3600.0).paths,
        )


def test_a_version_that_cannot_be_written_leaves_nothing_behind(
    store: ArtefactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)

    with pytest.raises(OSError, match="No space"):
        written(store, "1")

    assert list((store.directory / "versions").iterdir()) == []


def test_a_version_is_in_force_only_once_published(store: ArtefactStore) -> None:
    written(store, "1")
    written(store, "2", publish=False)

    assert store.current() == "1"


def test_a_truncated_file_is_refused(store: ArtefactStore) -> None:
    written(store, "1")
    weights = store.directory / "versions" / "1" / "patchtst.npz"
    weights.write_bytes(weights.read_bytes()[:1000])

    with pytest.raises(ArtefactInvalid, match="truncated or was altered"):
        store.load("1", GRID)


def test_a_missing_file_is_refused(store: ArtefactStore) -> None:
    written(store, "1")
    (store.directory / "versions" / "1" / "regression.npz").unlink()

    with pytest.raises(ArtefactInvalid):
        store.load("1", GRID)


def test_a_version_of_another_format_is_refused(store: ArtefactStore) -> None:
    written(store, "1")
    path = store.directory / "versions" / "1" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))

    with pytest.raises(ArtefactInvalid, match=f"has format 99; this release reads {FORMAT}"):
        store.load("1", GRID)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}'])
def test_a_broken_manifest_is_refused(store: ArtefactStore, text: str) -> None:
    written(store, "1")
    (store.directory / "versions" / "1" / "manifest.json").write_text(text)

    with pytest.raises(ArtefactInvalid):
        store.load("1", GRID)


@pytest.mark.parametrize("seed", range(40))
def test_a_manifest_in_which_one_letter_changed_is_refused(store: ArtefactStore, seed: int) -> None:
    written(store, "1")
    path = store.directory / "versions" / "1" / "manifest.json"
    text = path.read_text()
    letters = [at for at, letter in enumerate(text) if letter.isalnum()]
    at = random.Random(seed).choice(letters)
    path.write_text(text[:at] + "?" + text[at + 1 :])

    with pytest.raises(ArtefactInvalid):
        store.load("1", GRID)


def test_a_manifest_of_before_there_were_seals_is_read(store: ArtefactStore) -> None:
    written(store, "1")
    path = store.directory / "versions" / "1" / "manifest.json"
    content = json.loads(path.read_text())
    del content["seal"]
    path.write_text(json.dumps(content))

    assert store.load("1", GRID)[0].models == BOTH


def test_a_version_for_another_step_is_refused(store: ArtefactStore) -> None:
    written(store, "1")

    with pytest.raises(ArtefactInvalid, match="another step"):
        store.load("1", replace(GRID, step_s=60.0))


def test_going_back_restores_the_version_before_and_then_none(store: ArtefactStore) -> None:
    written(store, "1")
    written(store, "2")

    assert store.roll_back("2") == "1"
    assert (store.current(), store.rolled_back()) == ("1", "2")
    assert store.roll_back("2") == "1", "told twice it went back twice"
    assert store.roll_back("1") is None
    assert store.current() is None
    with pytest.raises(NoArtefact, match="no version 3"):
        store.roll_back("3")


def test_going_back_passes_over_versions_that_were_rejected_or_refused(store: ArtefactStore) -> None:
    written(store, "1")
    written(store, "2", models=(), publish=False)
    written(store, "3")
    written(store, "4")
    store.roll_back("3")

    assert store.current() == "4", "another version was in force"
    assert store.roll_back("4") == "1"


def test_a_version_that_was_gone_back_from_is_forgotten_once_a_newer_one_is_in_force(
    store: ArtefactStore,
) -> None:
    written(store, "1")
    written(store, "2")
    store.roll_back("2")

    written(store, "3")

    assert store.rolled_back() is None
    assert store.roll_back("3") == "1", "a version that an operator refused came back"


def test_rejected_versions_do_not_push_out_the_one_to_go_back_to(store: ArtefactStore) -> None:
    written(store, "1")
    for number in range(2, 2 * KEPT):
        written(store, f"{number}", models=(), publish=False)
    written(store, "9")

    assert store.roll_back("9") == "1"
    assert len(store.versions()) == 2 + KEPT


def test_the_last_few_versions_are_kept(store: ArtefactStore) -> None:
    for number in range(1, KEPT + 3):
        written(store, f"{number}")

    assert store.versions() == [str(number) for number in range(3, KEPT + 3)]


def test_nothing_that_is_read_can_run_code(store: ArtefactStore) -> None:
    written(store, "1")

    for path in (store.directory / "versions" / "1").glob("*.npz"):
        with np.load(path, allow_pickle=False) as arrays:
            assert all(arrays[name].dtype.kind == "f" for name in arrays.files)
