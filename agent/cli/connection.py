"""The other end of the daemon's sockets, for commands: finds the daemon of a data directory and asks it.

Every request goes over the admin socket, which only the daemon's owner can open, so that no key is needed here.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from agent.cli.failures import CommandFailed, ExitCode

Record = dict[str, Any]
"""A record of the store as /admin shows it: JSON with the record's own field names."""

_TIMEOUT_S = 60.0
_TIMEOUT = httpx.Timeout(_TIMEOUT_S, connect=5.0)  # seconds
_STREAM_TIMEOUT = httpx.Timeout(600.0, connect=5.0)  # seconds, between two pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What daemon.json says."""

    pid: int
    url: str
    admin_socket: str


class Connection:
    """Requests to one daemon; a refusal becomes a CommandFailed with what the daemon said."""

    def __init__(self, address: Address, client: httpx.Client) -> None:
        self.address = address
        self._client = client

    def get(self, path: str, **query: str | int | None) -> Any:
        parameters = {key: value for key, value in query.items() if value is not None}
        return self._ask("GET", path, params=parameters).json()

    def post(self, path: str, body: Mapping[str, object] | None = None, *, timeout_s: float = _TIMEOUT_S) -> Any:
        return self._ask("POST", path, json=dict(body or {}), timeout=httpx.Timeout(timeout_s, connect=5.0)).json()

    @contextmanager
    def stream(self, path: str, body: Mapping[str, object], *, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """A response whose lines are read as they come."""
        with self._client.stream("POST", path, json=dict(body), headers=headers, timeout=_STREAM_TIMEOUT) as response:
            if response.status_code >= httpx.codes.BAD_REQUEST:
                response.read()
                raise _refusal(response)
            yield response

    def _ask(self, method: str, path: str, **content: Any) -> httpx.Response:
        response = self._client.request(method, path, **content)
        if response.status_code >= httpx.codes.BAD_REQUEST:
            raise _refusal(response)
        return response


@contextmanager
def connected(data_dir: Path) -> Iterator[Connection]:
    """The daemon that runs on `data_dir`. Raises CommandFailed where none does."""
    address = _read_address(data_dir)
    transport = httpx.HTTPTransport(uds=address.admin_socket)
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=_TIMEOUT, trust_env=False) as client:
        try:
            yield Connection(address, client)
        except httpx.ConnectError as problem:
            raise _not_running(data_dir) from problem
        except httpx.TimeoutException as problem:
            raise CommandFailed("the daemon did not answer in time") from problem
        except httpx.HTTPError as problem:
            raise CommandFailed(f"the daemon broke off: {problem}") from problem


def _read_address(data_dir: Path) -> Address:
    try:
        found = json.loads((data_dir / "daemon.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _not_running(data_dir) from None
    if not Path(found["admin_socket"]).is_socket():  # a daemon that was killed leaves its daemon.json
        raise _not_running(data_dir)
    return Address(pid=found["pid"], url=found["url"], admin_socket=found["admin_socket"])


def _not_running(data_dir: Path) -> CommandFailed:
    return CommandFailed(
        f"no daemon is running on {data_dir}; start one with: journeyman serve --data-dir {data_dir}",
        code=ExitCode.NOT_RUNNING,
    )


def _refusal(response: httpx.Response) -> CommandFailed:
    """What the daemon answered instead, in its own words where it gave any."""
    try:
        message = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = f"the daemon answered {response.status_code} {response.reason_phrase}"
    is_busy = response.status_code == httpx.codes.SERVICE_UNAVAILABLE
    return CommandFailed(message, code=ExitCode.NOT_READY if is_busy else ExitCode.ERROR)
