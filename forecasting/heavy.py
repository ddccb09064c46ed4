"""Packages that are large or slow to import: only when used, with advice when missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from forecasting.errors import ForecastError

_ADVICE = {
    "torch": "install it with: pip install 'penstock[forecast]'",
    "neuralforecast": "install it with: pip install 'penstock[forecast]'",
    # It comes with Penstock; what slim images lack is the library that its wheel links to.
    "lightgbm": "it needs the OpenMP runtime: apt-get install libgomp1, or brew install libomp",
}


class MissingPackage(ForecastError):
    """A model needs a package that is not there, or a library that the package needs is not."""

    def __init__(self, package: str, why: str = "is not installed") -> None:
        super().__init__(f"{package} {why}; {_ADVICE[package]}")
        self.package = package


def installed(package: str) -> bool:
    """Whether `heavy` would find it; imports nothing."""
    return find_spec(package) is not None


def heavy(module: str) -> Any:
    """The module, imported now. Raises MissingPackage."""
    package = module.partition(".")[0]
    if not installed(package):
        raise MissingPackage(package)
    try:
        return import_module(module)
    except OSError as error:  # a shared library is missing
        raise MissingPackage(package, f"cannot be loaded ({error})") from error


def missing(package: str) -> str:
    """Why it cannot be used and what to do, in words; empty when it can. Imports it."""
    try:
        heavy(package)
    except MissingPackage as error:
        return str(error)
    return ""
