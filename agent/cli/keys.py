"""`journeyman keys`: who may use the HTTP interface. Works with the daemon or, where none runs, on its store."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import quote

import typer

from agent.api.keys import as_json
from agent.cli.connection import Connection, Record, connected
from agent.cli.display import STDERR, STDOUT, age, print_json, print_table
from agent.cli.failures import CommandFailed, ExitCode
from agent.cli.options import DataDirOption, JsonOption, chosen_data_dir
from agent.data_dir import hold_data_dir
from agent.keys import MAX_LIMIT, KeyRing, make_key
from memory.records import utc_now
from memory.states import Scope
from memory.store import open_store

T = TypeVar("T")

_PATH = "/admin/keys"

keys_app = typer.Typer(help="Who may use the HTTP interface.", invoke_without_command=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The key's name in records and logs.")]


@keys_app.callback()
def keys(context: typer.Context, *, data_dir: DataDirOption = None, json_wanted: JsonOption = False) -> None:
    """Show every key that was made. Without any, everybody on this machine may ask."""
    if context.invoked_subcommand is not None:
        return
    place = chosen_data_dir(data_dir)
    found = _with_daemon_or(place, lambda daemon: daemon.get(_PATH)["data"], _listed)
    if json_wanted:
        print_json(found)
        return
    rows = [
        (
            one["id"],
            one["scope"],
            "yes" if one["learn"] else "no",
            one["requests_per_minute"] or "-",
            one["tokens_per_day"] or "-",
            age(one["created_at"]),
            age(one["revoked_at"]),
        )
        for one in found
    ]
    columns = ("name", "scope", "learnt from", "requests a minute", "tokens a day", "made", "revoked")
    print_table("Keys", columns, rows, empty="No key was made: everybody on this machine may ask.")


@keys_app.command("add")
def add(
    name: NameArgument,
    *,
    scope: Annotated[Scope, typer.Option(help="user: one person. harness: many. admin: everything.")] = Scope.USER,
    learn: Annotated[bool, typer.Option(help="Whether what is served under it may be trained on.")] = True,
    requests_per_minute: Annotated[int, typer.Option(min=0, max=MAX_LIMIT, help="0: no limit.")] = 0,
    tokens_per_day: Annotated[
        int, typer.Option(min=0, max=MAX_LIMIT, help="Sampled tokens in 24 hours; 0: no limit.")
    ] = 0,
    sha256: Annotated[
        str | None, typer.Option(help="Digest of a key that exists already (printf %s KEY | sha256sum).")
    ] = None,
    data_dir: DataDirOption = None,
    json_wanted: JsonOption = False,
) -> None:
    """Make a key and print it, this once."""
    wanted: Record = {
        "id": name,
        "scope": scope.value,
        "learn": learn,
        "requests_per_minute": requests_per_minute,
        "tokens_per_day": tokens_per_day,
        "sha256": sha256,
    }

    async def on_store(ring: KeyRing) -> Record:
        key, token = make_key(
            name,
            scope=scope,
            now=utc_now(),
            learn=learn,
            requests_per_minute=requests_per_minute,
            tokens_per_day=tokens_per_day,
            sha256=sha256,
        )
        await ring.add(key)
        return {**as_json(key), "key": token}

    made = _with_daemon_or(chosen_data_dir(data_dir), lambda daemon: daemon.post(_PATH, wanted), on_store)
    if json_wanted:
        print_json(made)
    elif made["key"] is None:
        STDOUT.print(f"{name} may ask with the key of that digest.")
    else:
        STDOUT.print(made["key"], markup=False, soft_wrap=True)
        STDERR.print(f"This is the key of {name}, shown only now. From here on every request needs a key.")


@keys_app.command("revoke")
def revoke(name: NameArgument, *, data_dir: DataDirOption = None, json_wanted: JsonOption = False) -> None:
    """Refuse a key from now on. Its name stays taken; what was asked with it stays."""

    async def on_store(ring: KeyRing) -> Record:
        return as_json(await ring.revoke(name))

    place = chosen_data_dir(data_dir)
    revoked = _with_daemon_or(place, lambda daemon: daemon.post(f"{_PATH}/{quote(name, safe='')}/revoke"), on_store)
    if json_wanted:
        print_json(revoked)
    else:
        STDOUT.print(f"{name} is revoked.")


async def _listed(ring: KeyRing) -> list[Record]:
    return [as_json(key) for key in ring.keys]


def _with_daemon_or(data_dir: Path, ask: Callable[[Connection], T], on_store: Callable[[KeyRing], Awaitable[T]]) -> T:
    """Ask the daemon; where none runs, do it on the store of its data directory."""
    try:
        with connected(data_dir) as daemon:
            return ask(daemon)
    except CommandFailed as problem:
        if problem.code is not ExitCode.NOT_RUNNING:
            raise

    async def opened() -> T:
        async with open_store(data_dir) as store:
            ring = KeyRing(store, now=utc_now)
            await ring.load()
            return await on_store(ring)

    with hold_data_dir(data_dir):
        return asyncio.run(opened())
