"""`journeyman serve`: settings, models with a progress bar, then the daemon in the foreground."""

import asyncio
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

from agent.cli.display import STDERR, STDOUT
from agent.cli.options import DataDirOption, chosen_data_dir
from agent.cli.progress import progress_bar
from agent.config import load_settings, model_cache_dir, write_first_config
from agent.daemon import serve as run_daemon
from agent.sources import prepare
from agent.tables import Settings


def serve(
    *,
    data_dir: DataDirOption = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings to read instead of config.toml in the data directory.", dir_okay=False)
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on: server.host.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 0 for a free one: server.port.")] = None,
) -> None:
    """Run the daemon in the foreground. The first start fetches the models."""
    signal.signal(signal.SIGTERM, _leave)  # until the daemon's own handlers are there: clean up after a fetch
    place = chosen_data_dir(data_dir)
    flags = {"server.host": host, "server.port": port}
    given = {name: value for name, value in flags.items() if value is not None}
    read = partial(load_settings, place, config_file=config, flags=given)
    settings = read()
    write_first_config(place)
    _prepare_models(settings)
    asyncio.run(run_daemon(settings, place, read_again=read, on_ready=partial(_greet, data_dir=place)))


def _prepare_models(settings: Settings) -> None:
    with progress_bar(STDERR, in_bytes=True) as report:
        for source in (settings.policy.source, settings.embedder.source):
            prepare(source, model_cache_dir(settings), report=report)


def _greet(url: str, *, data_dir: Path) -> None:
    command = sys.argv[0] if sys.argv[0].endswith("journeyman") and not shutil.which("journeyman") else "journeyman"
    option = "" if data_dir == chosen_data_dir(None) else f" --data-dir {data_dir}"
    body = '{"model": "agent", "messages": [{"role": "user", "content": "What is a glacier?"}]}'
    lines = (
        f"\nJourneyman is ready at {url}\n",
        "Three things to try, in another terminal:\n",
        f"  curl {url}/v1/chat/completions -H 'Content-Type: application/json' -d '{body}'\n",
        f"  {command} chat{option}",
        "      then /good, /bad way too long, or /fix and what it should have said\n",
        f"  {command} demo",
        "      users complain, it reflects, trains, and answers better (ten minutes)\n",
    )
    for line in lines:
        STDOUT.print(line, markup=False, soft_wrap=True)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)
