"""Trained models on disk: versioned, checksummed, swapped atomically, no pickle.

    DIR/current                 the version in force: one line
    DIR/versions/ID/manifest.json
    DIR/versions/ID/*.npz       arrays (regression, networks)
    DIR/versions/ID/*.txt       LightGBM's own text format
    DIR/versions/ID/*.pt2       torch's exported programs, of networks that numpy does not run
    DIR/versions/ID/refused     there once an operator has rolled the version back

ArtefactError
├── ArtefactInvalid   truncated, altered, of another format or for another grid
└── NoArtefact        there is no such version
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import structlog

from forecasting.boosting import Boosting
from forecasting.calendar import Calendar
from forecasting.errors import ForecastError
from forecasting.exported import ExportedNetwork
from forecasting.grid import Grid
from forecasting.heavy import MissingPackage
from forecasting.learned import FleetModel
from forecasting.network import NetworkSpec, Weights
from forecasting.network_lessons import TrainedNetwork
from forecasting.patchtst import PatchTst
from forecasting.perceptron import Perceptron
from forecasting.regression import Regression
from forecasting.window import WINDOWS, Window

log = structlog.get_logger(__name__)

FORMAT = 4
"""Of files and of what they mean: weights for other features must not be read as ours."""
KEPT = 3


class ArtefactError(Exception):
    """A trained model cannot be used."""


class ArtefactInvalid(ArtefactError):
    """The files are not what their manifest says, or the manifest is not one of ours."""


class NoArtefact(ArtefactError):
    """There is no such version."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a version is and how it came about."""

    version: str
    step_s: float
    horizon_s: float
    season_s: float
    trained_to_s: float
    """Close of the last bin that training saw."""
    cpu_s: float
    topics: int
    models: tuple[str, ...]
    networks: tuple[dict[str, Any], ...] = ()
    losses: Mapping[str, float] = field(default_factory=dict)
    """On the day held out, by model: pinball loss at 0.95 over that of the best light model."""
    rejected: tuple[str, ...] = ()
    checksums: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    def fits(self, grid: Grid) -> bool:
        """Whether it was trained for this step, horizon and season."""
        mine = (self.step_s, self.horizon_s, self.season_s)
        return np.allclose(mine, (grid.step_s, grid.horizon_s, grid.season_s), rtol=1e-6)


class ArtefactStore:
    """Versions in one directory. The training process writes them, the controller reads and refuses."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(
        self,
        manifest: Manifest,
        *,
        regression: Regression | None,
        perceptron: Perceptron | None = None,
        windows: Sequence[Window] = (),
        boosting: Boosting | None,
        networks: Sequence[TrainedNetwork],
        programs: Mapping[str, bytes] | None = None,
    ) -> Path:
        """Write a version beside the others; it is not in force until `publish`."""
        final = self.directory / "versions" / manifest.version
        making = final.with_name(f".{manifest.version}.{os.getpid()}")
        making.mkdir(parents=True, exist_ok=False)
        try:
            if regression is not None:
                np.savez(making / "regression.npz", allow_pickle=False, **regression.arrays())
            if perceptron is not None:
                np.savez(making / "perceptron.npz", allow_pickle=False, **perceptron.arrays())
            for window in windows:
                np.savez(making / f"{window.name}.npz", allow_pickle=False, **window.arrays())
            if boosting is not None:
                for name, text in boosting.texts().items():
                    (making / f"boosting-{name}.txt").write_text(text, encoding="utf-8")
            for network in networks:
                arrays = {f"w/{name}": value for name, value in network.weights.items()}
                np.savez(
                    making / f"{network.spec.name}.npz", allow_pickle=False, offsets=network.offsets, **arrays
                )
            for name, program in (programs or {}).items():
                (making / f"{name}.pt2").write_bytes(program)
            sums = {path.name: _checksum(path) for path in sorted(making.iterdir())}
            content = {**asdict(manifest), "checksums": sums}
            _write_text(making / "manifest.json", json.dumps({**content, "seal": _seal(content)}, indent=1))
            making.rename(final)
        finally:  # half a version on a disk that is full would fill it further, at every training
            shutil.rmtree(making, ignore_errors=True)
        return final

    def publish(self, version: str) -> None:
        """Put a version in force, all at once."""
        self.manifest(version)
        _write_text(self.directory / "current", version + "\n")
        self.tidy()

    def tidy(self) -> None:
        """Keep the last few versions that can be served, and the last few others, to be looked at."""
        servable = [version for version in self.versions() if self.servable(version)]
        others = [version for version in self.versions() if version not in servable]
        for old in servable[:-KEPT] + others[:-KEPT]:
            if old != self.current():
                shutil.rmtree(self.directory / "versions" / old, ignore_errors=True)

    def servable(self, version: str) -> bool:
        """Whether a version can be put in force: training accepted some of it, nobody refused it."""
        try:
            return bool(self.manifest(version).models) and not self._mark(version).exists()
        except ArtefactError:
            return False

    def _mark(self, version: str) -> Path:
        return self.directory / "versions" / version / "refused"

    def versions(self) -> list[str]:
        """Oldest first."""
        where = self.directory / "versions"
        if not where.is_dir():
            return []
        return sorted(path.name for path in where.iterdir() if not path.name.startswith("."))

    def current(self) -> str | None:
        """The version in force; None before the first. Raises ArtefactInvalid if the disk cannot tell."""
        path = self.directory / "current"
        try:
            return path.read_text(encoding="utf-8", errors="replace").strip() or None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ArtefactInvalid(f"{path} cannot be read: {error.strerror}") from error

    def roll_back(self, version: str) -> str | None:
        """Refuse a version for good; where it is in force, the last servable one before it is from now on.

        None is in force where there is none before it. Raises NoArtefact for a version that is not there.
        """
        if version not in self.versions():
            raise NoArtefact(f"{self.directory} has no version {version}")
        _write_text(self._mark(version), "rolled back\n")
        if self.current() != version:
            return self.current()
        before = [older for older in self.versions() if older < version and self.servable(older)]
        if before:
            _write_text(self.directory / "current", before[-1] + "\n")
        else:
            (self.directory / "current").unlink(missing_ok=True)
        return self.current()

    def rolled_back(self) -> str | None:
        """The version that was rolled back and that nothing newer has replaced yet; None when there is none.

        While there is one, a new training has to beat what is in force to be put there.
        """
        current = self.current() or ""
        refused = [
            version for version in self.versions() if version > current and self._mark(version).exists()
        ]
        return refused[-1] if refused else None

    def manifest(self, version: str) -> Manifest:
        """Raises NoArtefact, ArtefactInvalid."""
        path = self.directory / "versions" / version / "manifest.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content.get("format") != FORMAT:
                raise ArtefactInvalid(
                    f"{path} has format {content.get('format')}; this release reads {FORMAT}: train again"
                )
            # Versions of before have none; an altered manifest names another network, or runs it otherwise.
            if "seal" in content and content.pop("seal") != _seal(content):
                raise ArtefactInvalid(f"{path} was altered")
            content["models"] = tuple(content["models"])
            content["networks"] = tuple(content["networks"])
            content["rejected"] = tuple(content["rejected"])
            return Manifest(**content)
        except FileNotFoundError as error:
            raise NoArtefact(f"{path} does not exist") from error
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ArtefactInvalid(f"{path} cannot be read: {error}") from error

    def load(
        self, version: str, grid: Grid, calendar: Calendar | None = None
    ) -> tuple[Manifest, tuple[FleetModel, ...]]:
        """The models of a version, each file checked against its sum. Raises ArtefactError.

        A model whose package cannot be loaded here is left out, and logged: the others serve.
        """
        manifest = self.manifest(version)
        if not manifest.fits(grid):
            raise ArtefactInvalid(f"version {version} was trained for another step, horizon or season")
        where = self.directory / "versions" / version
        for name, expected in manifest.checksums.items():
            if not (where / name).is_file() or _checksum(where / name) != expected:
                raise ArtefactInvalid(f"{where / name} is truncated or was altered")
        specs = {spec.name: spec for spec in map(spec_of, manifest.networks)}
        models: list[FleetModel] = []
        for name in manifest.models:
            try:
                models.append(self._model(name, where, specs.get(name), grid, calendar or Calendar()))
            except MissingPackage as error:
                log.warning("trained_model_left_out", version=version, model=name, why=str(error))
            except (OSError, ValueError, KeyError, BadZipFile, ForecastError) as error:
                raise ArtefactInvalid(f"version {version} cannot be loaded: {name}: {error}") from error
        return manifest, tuple(models)

    def _model(
        self, name: str, where: Path, spec: NetworkSpec | None, grid: Grid, calendar: Calendar
    ) -> FleetModel:
        if spec is not None:
            return self._served_network(where, spec, grid, calendar)
        if name == "regression":
            return Regression.from_arrays(_arrays(where / "regression.npz"))
        if name == "perceptron":
            return Perceptron.from_arrays(_arrays(where / "perceptron.npz"))
        if name in WINDOWS:
            return Window.from_arrays(name, _arrays(where / f"{name}.npz"), grid)
        if name == "boosting":
            texts = {
                path.stem.removeprefix("boosting-"): path.read_text(encoding="utf-8")
                for path in where.glob("boosting-*.txt")
            }
            return Boosting.from_texts(texts)
        raise ArtefactInvalid(f"{where} has a model {name} that this release does not know")

    def _served_network(self, where: Path, spec: NetworkSpec, grid: Grid, calendar: Calendar) -> FleetModel:
        offsets, weights = self.network(where, spec)
        if spec.architecture == "PatchTST":
            return PatchTst(spec, weights, offsets, spec.needs(grid))
        program = (where / f"{spec.name}.pt2").read_bytes()
        return ExportedNetwork.from_bytes(spec, program, offsets, needs=spec.needs(grid), calendar=calendar)

    @staticmethod
    def network(where: Path, spec: NetworkSpec) -> tuple[Any, Weights]:
        """Offsets and weights of a network."""
        arrays = _arrays(where / f"{spec.name}.npz")
        offsets = arrays.pop("offsets")
        return offsets, {name.removeprefix("w/"): value for name, value in arrays.items()}


def spec_of(kept: Mapping[str, Any]) -> NetworkSpec:
    """A spec from its JSON form."""
    options = tuple((str(name), value) for name, value in kept["options"])
    return NetworkSpec(**{**kept, "options": options})


def _arrays(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as kept:
        return {name: kept[name] for name in kept.files}


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _seal(content: Mapping[str, Any]) -> str:
    """Of what a manifest says, however it is laid out."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _write_text(path: Path, text: str) -> None:
    """All or nothing, also across a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
