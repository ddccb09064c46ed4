"""What the simulator refuses, and what to do about it.

SimulationError
├── TraceInvalid     the trace cannot be used; names the file, the line and the reason
├── PlantInvalid     the plant cannot be used; names each field, its value and the rule
├── FleetInvalid     the fleet cannot be used; names each key, its value and the rule
├── UnknownPolicy    no policy has that name
├── NothingToJudge   the trace and the plant leave nothing to simulate
└── NotWritable      a file for the results cannot be written
"""

from __future__ import annotations


class SimulationError(Exception):
    """Anything that stops a backtest in an expected way."""


class TraceInvalid(SimulationError):
    """The trace cannot be used."""

    def __init__(self, source: str, reason: str, *, line: int | None = None) -> None:
        where = source if line is None else f"{source}, line {line}"
        super().__init__(f"{where}: {reason}")
        self.source = source
        self.line = line


class PlantInvalid(SimulationError):
    """The plant cannot be used."""


class FleetInvalid(SimulationError):
    """The fleet cannot be used."""


class UnknownPolicy(SimulationError):
    """No policy has that name."""


class NothingToJudge(SimulationError):
    """The trace and the plant leave nothing to simulate."""


class NotWritable(SimulationError):
    """A file for the results cannot be written."""
