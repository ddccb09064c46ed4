"""`penstock`: the entry point. Commands are imported when called, so that a worker starts fast."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import Annotated

import typer
from typer.core import TyperGroup
from typer.main import get_command

COMMANDS = (
    *(
        "demo",
        "backtest",
        "forecast",
        "freshness",
        "serve",
        "worker",
        "shard",
        "traffic",
        "embedded",
        "doctor",
    ),
    *("job", "fleet", "events", "token", "backup", "backfill", "profile", "rewind", "takeover", "handback"),
)
"""Each is the function of that name in the module of that name, or a group of commands."""

# Before numpy is imported. Matrices here are small: threads of BLAS mostly wait for one another. On a busy
# machine a network took eight times the CPU time to train, and its budget ran out.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class LazyGroup(TyperGroup):
    """Knows every command by name; imports one when it is asked for."""

    def list_commands(self, ctx: object) -> list[str]:
        """In the order a newcomer meets them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str):  # type: ignore[no-untyped-def]
        """None for a name that is not a command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        found = getattr(_imported(f"services.cli.{cmd_name}"), cmd_name)
        if isinstance(found, typer.Typer):
            command = get_command(found)
        else:
            single = typer.Typer(add_completion=False, rich_markup_mode=None)
            single.command(cmd_name)(found)
            command = get_command(single)
        command.name = cmd_name
        return command


def _imported(name: str) -> ModuleType:
    """The module of a command. What is imported stays for good: the collector of garbage need not look
    through it, which takes CPU time at every start, and a pause now and then after that.
    """
    if name in sys.modules:
        return sys.modules[name]
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {version('penstock')}")
        raise typer.Exit


@app.callback()
def penstock(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Proactive autoscaler for online training on Kafka streams.

    Start with `penstock demo`: the whole loop on this machine, no other software needed.
    """


if __name__ == "__main__":
    app()
