"""`journeyman backup`, `journeyman restore` and `journeyman fsck`."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from agent.backups import back_up
from agent.backups import restore as restore_backup
from agent.cli.connection import Record, connected
from agent.cli.display import STDOUT, print_json, print_table
from agent.cli.failures import CommandFailed, ExitCode
from agent.cli.options import DataDirOption, JsonOption, chosen_data_dir
from agent.data_dir import hold_data_dir
from agent.fsck import check_data_dir
from memory.records import utc_now
from memory.store import open_store

_LONG_S = 3600.0


def backup(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A directory that is absent or empty.")],
    *,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy everything that cannot be made again, while the daemon goes on."""
    place, target = chosen_data_dir(data_dir), target.expanduser().absolute()
    try:
        with connected(place) as daemon:
            manifest: Record = daemon.post("/admin/backup", {"to": str(target)}, timeout_s=_LONG_S)
    except CommandFailed as problem:
        if problem.code is not ExitCode.NOT_RUNNING:
            raise
        manifest = _back_up_stopped(place, target)
    if as_json:
        print_json(manifest)
    else:
        STDOUT.print(f"{len(manifest['files'])} files up to {manifest['live_version']} in {target}", markup=False)


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `journeyman backup` wrote.")],
    *,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a data directory, which must be absent or empty, of a backup."""
    place = chosen_data_dir(data_dir)
    manifest = restore_backup(source.expanduser().absolute(), place)
    if as_json:
        print_json(manifest.model_dump(mode="json"))
    else:
        STDOUT.print(f"{place} is as it was at {manifest.created_at:%Y-%m-%d %H:%M} UTC, {manifest.live_version} live")


def fsck(*, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Say what in a data directory is lost or damaged. Reads only; a daemon may be running."""
    place = chosen_data_dir(data_dir)
    found = check_data_dir(place)
    if as_json:
        print_json([asdict(finding) for finding in found])
    else:
        rows = [("error" if one.is_error else "warning", one.where, one.what) for one in found]
        print_table("Found", ("", "where", "what"), rows, empty=f"{place} is whole.")
    if any(finding.is_error for finding in found):
        raise typer.Exit(ExitCode.ERROR)


def _back_up_stopped(data_dir: Path, target: Path) -> Record:
    if not data_dir.is_dir():
        raise CommandFailed(f"there is no data directory {data_dir}")

    async def opened() -> Record:
        async with open_store(data_dir) as store:
            return (await back_up(store, data_dir, target, now=utc_now())).model_dump(mode="json")

    with hold_data_dir(data_dir):
        return asyncio.run(opened())
