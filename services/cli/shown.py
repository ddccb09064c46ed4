"""How commands show things: tables for people, JSON for scripts, errors and exit codes alike everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from services.cli.client import DEFAULT_SERVER, Client, ServerError

Server = Annotated[
    str,
    typer.Option(envvar="PENSTOCK_SERVER", metavar="URL", help="The controller to ask.", show_default=True),
]
CaFile = Annotated[str | None, typer.Option(metavar="FILE", help="Certificate authority of the server, PEM.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]

SERVER = DEFAULT_SERVER


@contextmanager
def answering(command: str) -> Iterator[None]:
    """Turn a server's no into a sentence and an exit code: 3 unreachable, 4 denied, 1 refused."""
    try:
        yield
    except ServerError as error:
        typer.echo(f"penstock {command}: {error}", err=True)
        raise typer.Exit(error.exit_code) from error


@contextmanager
def asking_server(command: str, server: str, ca_file: str | None) -> Iterator[Client]:
    """A client whose errors are told as above."""
    with answering(command):
        yield Client(server, ca_file=ca_file)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say what takes a while, and how long it has taken; on standard error, and gone when it is over."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        progress.add_task(what, total=None)
        yield


def show(document: Any, as_json: bool, table: Callable[[Any], Table]) -> None:
    """JSON as it came, or a table for people."""
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        Console().print(table(document))


def table_of(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """A plain table. Cells are text, never markup: a name in square brackets stays a name."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")  # a narrow terminal shows all of a reason, on two lines
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(written(cell)) for cell in row))
    return table


def facts(rows: dict[str, object]) -> Table:
    """Names and values, one a line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(Text(name, "dim"), value if isinstance(value, Text) else Text(written(value)))
    return table


def written(value: object) -> str:
    """A value for people.

    >>> written(None), written(1234567.0), written(0.25), written(True)
    ('-', '1,234,567', '0.25', 'yes')
    """
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def at(seconds: float | None) -> str:
    """A time for people, in UTC.

    >>> at(1_700_000_000.0), at(None), at(1e17)
    ('2023-11-14 22:13:20', '-', 'beyond the calendar')
    """
    try:
        return "-" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):  # one such token must not hide the others of a list
        return "beyond the calendar"


def lately(seconds: float | None) -> str:
    """A time of this year for people, in UTC, where a line has to hold much else.

    >>> lately(1_700_000_000.0), lately(None)
    ('11-14 22:13:20', '-')
    """
    return at(seconds).partition("-")[2] or "-"


def share(value: float | None) -> str:
    """A share for people.

    >>> share(0.0123)
    '1.23 %'
    """
    return "-" if value is None else f"{value:.2%}".replace("%", " %")
