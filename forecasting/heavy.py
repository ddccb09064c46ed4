"""Packages that are large or slow to import: only when used, with advice when missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from forecasting.errors import ForecastError

_EXTRA = {"torch": "forecast", "neuralforecast": "forecast", "lightgbm": "boosting"}


class MissingPackage(ForecastError):
    """A model needs a package that is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"{package} is not installed; install it with: pip install 'penstock[{_EXTRA[package]}]'"
        )
        self.package = package


def installed(package: str) -> bool:
    """Whether `heavy` would find it; imports nothing."""
    return find_spec(package) is not None


def heavy(module: str) -> Any:
    """The module, imported now. Raises MissingPackage."""
    package = module.partition(".")[0]
    if not installed(package):
        raise MissingPackage(package)
    return import_module(module)
