"""`journeyman serve`: settings, models with a progress bar, then the daemon in the foreground."""

import asyncio
import signal
import sys
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
    settings = load_settings(place, config_file=config, flags=given)
    write_first_config(place)
    _prepare_models(settings)
    asyncio.run(run_daemon(settings, place, on_ready=_greet))


def _prepare_models(settings: Settings) -> None:
    with progress_bar(STDERR, in_bytes=True) as report:
        for source in (settings.policy.source, settings.embedder.source):
            prepare(source, model_cache_dir(settings), report=report)


def _greet(url: str) -> None:
    body = '{"model": "agent", "messages": [{"role": "user", "content": "What is a glacier?"}]}'
    STDOUT.print(f"\nJourneyman is ready at {url}\n\nThree things to try, in another terminal:\n", style="bold")
    STDOUT.print(f"  curl {url}/v1/chat/completions -H 'Content-Type: application/json' -d '{body}'", soft_wrap=True)
    STDOUT.print("  journeyman chat          # then /good, /bad too long, /fix what it should have said")
    STDOUT.print("  journeyman demo          # users complain, it reflects, trains, and answers better\n")


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)
