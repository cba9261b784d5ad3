"""`journeyman schedule`: when passes are due, changed while the daemon runs; and `journeyman abort`."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from agent.cli.connection import Record, connected
from agent.cli.display import STDOUT, age, print_facts, print_json
from agent.cli.failures import CommandFailed
from agent.cli.options import DataDirOption, JsonOption, chosen_data_dir

_PATH = "/admin/schedule"
_SHOWN = (
    "every",
    "cron",
    "after_interactions",
    "after_negative",
    "when_idle",
    "quiet_hours",
    "timezone",
    "max_duration",
)

schedule_app = typer.Typer(help="When reflection passes and updates are due.", invoke_without_command=True)


class PassKind(StrEnum):
    """Whose schedule is meant."""

    REFLECT = "reflect"
    UPDATE = "update"


KindArgument = Annotated[PassKind, typer.Argument(help="reflect or update.")]


@schedule_app.callback()
def schedule(context: typer.Context, *, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Show when reflection passes and updates are due, and what holds them."""
    if context.invoked_subcommand is None:
        with connected(chosen_data_dir(data_dir)) as daemon:
            _show(daemon.get(_PATH), as_json=as_json)


@schedule_app.command("set")
def set_keys(
    kind: KindArgument,
    *,
    enabled: Annotated[bool | None, typer.Option(help="Whether it runs on its own at all.")] = None,
    every: Annotated[str | None, typer.Option(help='Time since the last run, as 6h; "" turns it off.')] = None,
    cron: Annotated[str | None, typer.Option(help='Five cron fields; "" turns it off.')] = None,
    after_interactions: Annotated[int | None, typer.Option(help="New interactions; 0 turns it off.")] = None,
    after_negative: Annotated[int | None, typer.Option(help="New critical feedback; 0 turns it off.")] = None,
    when_idle: Annotated[str | None, typer.Option(help='Silence, as 15m; "" turns it off.')] = None,
    quiet_hours: Annotated[str | None, typer.Option(help='HH:MM-HH:MM in which it waits; "" has none.')] = None,
    timezone: Annotated[str | None, typer.Option(help="Of --cron and --quiet-hours, as Europe/Berlin.")] = None,
    max_duration: Annotated[str | None, typer.Option(help='Longest run, as 2h; "" sets no limit.')] = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change a schedule from now on; it outlives a restart."""
    said = {
        "enabled": enabled,
        "every": every,
        "cron": cron,
        "after_interactions": after_interactions,
        "after_negative": after_negative,
        "when_idle": when_idle,
        "quiet_hours": quiet_hours,
        "timezone": timezone,
        "max_duration": max_duration,
    }
    given = {key: value for key, value in said.items() if value is not None}
    if not given:
        raise typer.BadParameter(
            "give at least one of --every, --cron, --after-interactions, ... (--help has them all)"
        )
    with connected(chosen_data_dir(data_dir)) as daemon:
        _show(daemon.post(_PATH, {"kind": kind.value, "set": given}), as_json=as_json)


@schedule_app.command("reset")
def reset_keys(
    kind: KindArgument,
    keys: Annotated[list[str] | None, typer.Argument(help="Keys to reset; all where none is named.")] = None,
    *,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow the configuration again."""
    with connected(chosen_data_dir(data_dir)) as daemon:
        wanted = [key.replace("-", "_") for key in keys or ()] or ["enabled", *_SHOWN]
        _show(daemon.post(_PATH, {"kind": kind.value, "reset": wanted}), as_json=as_json)


@schedule_app.command("pause")
def pause(*, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Start no pass on its own until `resume`; asking for one still works."""
    with connected(chosen_data_dir(data_dir)) as daemon:
        _show(daemon.post(_PATH, {"paused": True}), as_json=as_json)


@schedule_app.command("resume")
def resume(*, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Go on; what fell due during the pause runs once."""
    with connected(chosen_data_dir(data_dir)) as daemon:
        _show(daemon.post(_PATH, {"paused": False}), as_json=as_json)


def abort(*, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """End the reflection pass or update that runs; it counts as failed."""
    with connected(chosen_data_dir(data_dir)) as daemon:
        running = daemon.get("/admin/status")["running"]
        if running is None:
            raise CommandFailed("no pass is running")
        ended = daemon.post(f"/admin/passes/{running['id']}/abort")
    if as_json:
        print_json(ended)
    else:
        STDOUT.print(f"{ended['kind']} {ended['id']} aborted")


def _show(found: Record, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if found["paused"]:
        STDOUT.print("Learning is paused: nothing runs on its own until `journeyman schedule resume`.\n")
    for row in found["data"]:
        STDOUT.print(row["kind"], style="bold")
        print_facts(dict(_facts(row)))
        STDOUT.print()


def _facts(row: Mapping[str, Any]) -> dict[str, object]:
    changed = set(row["changed"])
    said = {key: row[key] for key in _SHOWN if row[key] not in ("", 0)}
    marked = {key: f"{value} (changed)" if key in changed else value for key, value in said.items()}
    new = f"{row['new_interactions']} interactions, {row['new_negative']} critical"
    return {
        **marked,
        "last run": age(row["last_at"]),
        "new since": new,
        "next by time": age(row["next_due_at"]),
        "due because of": row["due_because"],
        "held by": row["held_by"],
    }
