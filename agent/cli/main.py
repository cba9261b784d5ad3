"""The commands under their names, and the one place where an error becomes a line and an exit code."""

import importlib.metadata
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import httpx
import typer

from agent.backups import BackupError
from agent.cli.acting import feedback, reflect_app, rollback, update_app
from agent.cli.backups import backup, fsck, restore
from agent.cli.chatting import chat
from agent.cli.config import config_app
from agent.cli.display import STDERR
from agent.cli.doctor import doctor
from agent.cli.failures import CommandFailed, ExitCode
from agent.cli.keys import keys_app
from agent.cli.reading import clusters, reflections, updates, versions, why
from agent.cli.schedule import abort, schedule_app
from agent.cli.serving import serve
from agent.cli.status import status
from agent.cli.unit import unit
from agent.config import ConfigError
from agent.data_dir import DataDirInUseError
from agent.demo.run import run_demo
from agent.fetching import SourceError
from agent.keys import KeyRefusedError
from memory.child import ChildFailed
from memory.database import DatabaseError

_FORESEEN = (
    ConfigError,
    SourceError,
    DataDirInUseError,
    DatabaseError,
    ChildFailed,
    BackupError,
    KeyRefusedError,
    httpx.HTTPError,
    OSError,
)
"""What can go wrong without a fault of the program; the message is written for the operator."""

app = typer.Typer(
    help="One deployed agent that learns on the job.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(importlib.metadata.version("journeyman"))
        raise typer.Exit


@app.callback()
def journeyman(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=lambda wanted: _print_version(wanted=wanted), is_eager=True)
    ] = False,
) -> None:
    """One deployed agent that learns on the job."""


def demo(
    *,
    data_dir: Annotated[
        Path | None, typer.Option(help="An empty directory; a temporary one where none is given.", file_okay=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed is another log of users.")] = 0,
) -> None:
    """Show it learning: users complain, it reflects, trains, and answers better under a new version."""
    raise typer.Exit(run_demo(data_dir, seed=seed))


_COMMANDS = (
    serve,
    chat,
    status,
    feedback,
    reflections,
    clusters,
    updates,
    versions,
    rollback,
    why,
    abort,
    backup,
    restore,
    fsck,
    doctor,
    unit,
    demo,
)
for _command in _COMMANDS:
    app.command()(_command)
app.add_typer(reflect_app, name="reflect")
app.add_typer(update_app, name="update")
app.add_typer(schedule_app, name="schedule")
app.add_typer(keys_app, name="keys")
app.add_typer(config_app, name="config")


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line and exit; whatever was foreseen ends in one line on standard error."""
    try:
        app(words, prog_name="journeyman")
    except CommandFailed as problem:
        _give_up(str(problem), problem.code)
    except _FORESEEN as problem:
        _give_up(str(problem), ExitCode.ERROR)


def _give_up(message: str, code: ExitCode) -> None:
    STDERR.print(f"journeyman: {message}", style="red", markup=False, soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
