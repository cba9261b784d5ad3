"""`journeyman config`: what a daemon would run with, where each key comes from, and whether it can be read at all."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from agent.cli.display import STDOUT, print_json, print_table
from agent.cli.options import DataDirOption, JsonOption, chosen_data_dir
from agent.config import DEFAULT, explain_settings
from agent.config_text import render_value

config_app = typer.Typer(help="The settings of a daemon.", no_args_is_help=True)

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Read this instead of config.toml in the data directory.", dir_okay=False),
]


@config_app.command("show")
def show(
    *,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each key was set.")] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Only keys that were set.")] = False,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every key as a daemon that starts now would have it."""
    keys = explain_settings(chosen_data_dir(data_dir), config_file=config)
    shown = [key for key in keys if key.origin != DEFAULT or not changed]
    if as_json:
        print_json([asdict(key) for key in shown])
        return
    columns = ("key", "value", "origin") if origin else ("key", "value")
    rows = [(key.name, render_value(key.value), key.origin)[: len(columns)] for key in shown]
    print_table("Settings", columns, rows, empty="Nothing was set: every key has its default.")


@config_app.command("check")
def check(*, config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Say whether a daemon could start with it; what is wrong is one line that names the key."""
    keys = explain_settings(chosen_data_dir(data_dir), config_file=config)
    num_set = sum(key.origin != DEFAULT for key in keys)
    STDOUT.print(f"Good: {num_set} of {len(keys)} keys are set, the others have their defaults.")
