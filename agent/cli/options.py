"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from agent.config import default_data_dir

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        envvar="JOURNEYMAN_DATA_DIR",
        help=f"Where everything is kept. Default: {default_data_dir()}",
        show_default=False,
        file_okay=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the records as JSON.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many rows at most.")]


def chosen_data_dir(data_dir: Path | None) -> Path:
    """The given directory, or the user's own."""
    return (data_dir or default_data_dir()).expanduser().absolute()
