"""Who gets in where: every route, by every kind of caller, on loopback and off it, and every Host and Origin.

Real daemons and real sockets. What is intended is written down here and nowhere read from the code.

`SABOTAGE=open_admin` lets any key administer. `QUICK=1` changes nothing: it is quick.
"""

import asyncio
import json
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from agent.api.app import ROUTES
from agent.demo.daemon_process import QUIET_CLOCK, SERVE, DaemonFailed, RunningDaemon, running_daemon
from agent.keys import KeyRing, make_key
from benchmarks.common import Figure, finish, print_table, sabotage
from memory.records import utc_now
from memory.states import Scope
from memory.store import open_store

OPEN_ADMIN = (
    sys.executable,
    "-c",
    "from agent.api import app; app._ADMIN_PATHS = ('/nowhere',); from agent.cli.main import main; main()",
)
ORIGIN = "https://chat.example"
OPEN_PATHS = {"/healthz", "/readyz"}
CALLERS = ("no key", "wrong key", "revoked key", "key as Basic", "user", "harness", "admin", "admin socket")
SCOPES = {"user": Scope.USER, "harness": Scope.HARNESS, "admin": Scope.ADMIN, "gone": Scope.ADMIN}
REFUSED = {"no key", "wrong key", "revoked key", "key as Basic"}
IN = "in"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A daemon, and what its callers say."""

    name: str
    url: str
    socket: str
    headers: Mapping[str, Mapping[str, str]]
    """By caller."""
    asks_for_keys: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    place: str
    what: str
    caller: str
    intended: str
    found: str
    by_route: bool = False
    """One cell of the matrix; else something of its own."""

    @property
    def ok(self) -> bool:
        return self.intended == self.found


def main() -> int:
    started = time.perf_counter()
    broken = sabotage(("open_admin",))
    with tempfile.TemporaryDirectory(prefix="auth-matrix-") as folder:
        seen = asyncio.run(_run(Path(folder), OPEN_ADMIN if broken else SERVE))
    _print(seen)
    wrong = [f"{row.place}: {row.what}, {row.caller}: {row.found}, not {row.intended}" for row in seen if not row.ok]
    figure = Figure(
        name="auth_matrix",
        value=float(len(wrong)),
        target="0 requests that were let in or refused other than intended",
        ok=not wrong,
        details={"requests": len(seen), "routes": len(ROUTES), "wrong": wrong},
    )
    return finish(figure, started=started)


async def _run(folder: Path, command: Sequence[str]) -> list[Seen]:
    own = own_address()
    seen = [await _refuses_to_start_open(folder / "open", command)]
    for name, host, with_keys in (
        ("loopback, no key made", "127.0.0.1", False),
        ("loopback, keys", "127.0.0.1", True),
        ("every address, keys", "0.0.0.0", True),  # noqa: S104 - the point
    ):
        data_dir = folder / name.replace(" ", "-").replace(",", "")
        headers = await _make_keys(data_dir) if with_keys else {caller: {} for caller in CALLERS}
        settings = {
            **QUIET_CLOCK,
            "JOURNEYMAN_SERVER__HOST": host,
            "JOURNEYMAN_SERVER__ALLOWED_HOSTS": json.dumps([own]),
            "JOURNEYMAN_SERVER__ALLOWED_ORIGINS": json.dumps([ORIGIN]),
        }
        async with running_daemon(data_dir, settings=settings, command=command) as daemon:
            url = daemon.url.replace("0.0.0.0", own)  # noqa: S104 - as seen from elsewhere
            place = Place(name=name, url=url, socket=_admin_socket(daemon), headers=headers, asks_for_keys=with_keys)
            seen += await _every_route(place)
            seen += await _every_sender(place)
    return seen


async def _refuses_to_start_open(data_dir: Path, command: Sequence[str]) -> Seen:
    """Where others could ask and nobody has a key, there is no daemon."""
    settings = {**QUIET_CLOCK, "JOURNEYMAN_SERVER__HOST": "0.0.0.0"}  # noqa: S104 - the point
    try:
        async with running_daemon(data_dir, settings=settings, command=command):
            found = "started"
    except DaemonFailed as failure:
        found = "refused" if "journeyman keys add" in str(failure) and "Traceback" not in str(failure) else str(failure)
    return Seen(place="every address, no key made", what="start", caller="-", intended="refused", found=found)


async def _make_keys(data_dir: Path) -> dict[str, Mapping[str, str]]:
    tokens: dict[str, str] = {}
    async with open_store(data_dir) as store:
        ring = KeyRing(store, now=utc_now)
        for name, scope in (
            ("user", Scope.USER),
            ("harness", Scope.HARNESS),
            ("admin", Scope.ADMIN),
            ("gone", Scope.ADMIN),
        ):
            key, token = make_key(name, scope=scope, now=utc_now())
            await ring.add(key)
            tokens[name] = token or ""
        await ring.revoke("gone")
    bearer = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    return {
        "no key": {},
        "wrong key": {"Authorization": "Bearer jm-somebody-elses"},
        "revoked key": bearer["gone"],
        "key as Basic": {"Authorization": f"Basic {tokens['admin']}"},
        "user": bearer["user"],
        "harness": bearer["harness"],
        "admin": bearer["admin"],
        "admin socket": {},
    }


async def _every_route(place: Place) -> list[Seen]:
    seen = []
    connector = aiohttp.UnixConnector(place.socket)
    async with aiohttp.ClientSession() as tcp, aiohttp.ClientSession(connector=connector) as unix:
        for route in ROUTES:
            path = route.path.replace("{id}", "nothing")
            for caller in CALLERS:
                session, url = (unix, "http://localhost") if caller == "admin socket" else (tcp, place.url)
                found = await _ask(session, route.method, f"{url}{path}", place.headers[caller])
                intended = intended_for(path, caller, asks_for_keys=place.asks_for_keys)
                seen.append(
                    Seen(
                        place=place.name,
                        what=f"{route.method} {route.path}",
                        caller=caller,
                        intended=intended,
                        found=found,
                        by_route=True,
                    )
                )
    return seen


def intended_for(path: str, caller: str, *, asks_for_keys: bool) -> str:
    """What DESIGN and README promise."""
    if path in OPEN_PATHS or caller == "admin socket":
        return IN
    if asks_for_keys and caller in REFUSED:
        return "401"
    if path == "/admin/backup":
        return "403"  # it names a path on this machine, so only the socket's owner may ask
    if not asks_for_keys:
        return IN
    is_administration = path.startswith("/admin") or path == "/metrics"
    return "403" if is_administration and caller != "admin" else IN


async def _every_sender(place: Place) -> list[Seen]:
    """Host and Origin, each with a key that would do; the preflight of a page; and a request without Host."""
    port = place.url.rsplit(":", 1)[1]
    own = place.url.removeprefix("http://")
    cases: list[tuple[str, Mapping[str, str], str]] = [
        ("Host: as addressed", {"Host": own}, IN),
        ("Host: another port", {"Host": own.replace(port, "1")}, IN),
        ("Host: a name that leads here", {"Host": f"rebound.example:{port}"}, "403"),
        ("Host: ours as a prefix", {"Host": f"127.0.0.1.evil.example:{port}"}, "403"),
        ("Host: empty", {"Host": ""}, "403"),
        ("Origin: the page is ours", {"Origin": place.url}, IN),
        ("Origin: a configured page", {"Origin": ORIGIN}, IN),
        ("Origin: another page", {"Origin": "https://evil.example"}, "403"),
        ("Origin: null", {"Origin": "null"}, "403"),
        ("Origin: ours by another port", {"Origin": place.url.replace(port, "1")}, "403"),
        ("Origin: a configured page by another scheme", {"Origin": ORIGIN.replace("https", "http")}, "403"),
    ]
    key = place.headers["user"]
    seen = []
    async with aiohttp.ClientSession() as session:
        for what, headers, intended in cases:
            for method, caller, credentials in (("GET", "user", key), ("OPTIONS", "no key", {})):
                found = await _ask(session, method, f"{place.url}/v1/models", {**credentials, **headers})
                seen.append(
                    Seen(place=place.name, what=f"{method}, {what}", caller=caller, intended=intended, found=found)
                )
    return seen


async def _ask(session: aiohttp.ClientSession, method: str, url: str, headers: Mapping[str, str]) -> str:
    body: dict[str, str] | None = {} if method == "POST" else None
    async with session.request(method, url, headers=headers, json=body) as response:
        await response.read()
        return str(response.status) if response.status in (401, 403) or response.status >= 500 else IN


def _admin_socket(daemon: RunningDaemon) -> str:
    return str(json.loads((daemon.data_dir / "daemon.json").read_text(encoding="utf-8"))["admin_socket"])


def own_address() -> str:
    """This machine's address towards others; loopback where it has none. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _print(seen: Sequence[Seen]) -> None:
    by_route = {(row.place, row.what, row.caller): row for row in seen if row.by_route}
    for place in dict.fromkeys(row.place for row in by_route.values()):
        routes = dict.fromkeys(row.what for row in by_route.values() if row.place == place)
        table = [(what, *(_cell(by_route[place, what, caller]) for caller in CALLERS)) for what in routes]
        print_table(place, ("route", *CALLERS), table)
    print_table(
        "Start, Host and Origin",
        ("daemon", "what", "caller", "intended", "found"),
        [(row.place, row.what, row.caller, row.intended, _cell(row)) for row in seen if not row.by_route],
    )


def _cell(row: Seen) -> str:
    return row.found if row.ok else f"{row.found} NOT {row.intended}"


if __name__ == "__main__":
    sys.exit(main())
