"""Who speaks, and whether a request may come from where it comes from.

Without keys everybody on this machine is the operator: one principal, or one per `user` that a request names. With keys
the principal is the key, or (key, user) for a key that speaks for many. The Unix socket is guarded by its file mode, so
it needs neither key nor Host. Host and Origin are checked on all other requests: a web page must not reach us through
the browser of someone who runs a daemon.
"""

import hashlib
import hmac
import socket
from urllib.parse import urlsplit

from aiohttp import web

from agent.api.errors import ApiError, forbidden
from agent.tables import ApiKey, ServerSettings, is_loopback
from agent.turn import Caller

LOCAL = "local"
"""The principal of a request without a key, where keys are not asked for."""


def authenticate(request: web.Request, server: ServerSettings, *, user: str | None) -> Caller:
    """The caller of a request whose body names `user`. Raises ApiError 401."""
    if not server.api_keys or is_unix(request):
        return Caller(principal=f"{LOCAL}/{user}" if user else LOCAL, is_operator=is_unix(request))
    key = _find_key(request, server.api_keys)
    principal = f"{key.id}/{user}" if user and key.many_users else key.id
    return Caller(principal=principal, key_id=key.id, learn=key.learn)


def may_speak_for(caller: Caller, principal: str) -> bool:
    """True if what belongs to `principal` is the caller's own: its user's, or all of its key's."""
    owner = caller.key_id or LOCAL
    return (
        caller.is_operator
        or caller.principal == principal
        or (caller.principal == owner and principal.startswith(f"{owner}/"))
    )


def require_admin(request: web.Request, server: ServerSettings) -> None:
    """Keys are for users: once there are any, administration is by the Unix socket alone. Raises ApiError 403."""
    if server.api_keys and not is_unix(request):
        raise forbidden("Administration is only possible over the admin socket of the data directory.")


def check_origin(request: web.Request, server: ServerSettings) -> None:
    """Refuse foreign Host and Origin headers. Raises ApiError 403."""
    if is_unix(request):
        return
    host = urlsplit(f"//{request.headers.get('Host', '')}")
    if not _is_our_host(host.hostname, server):
        raise forbidden(f"Host {host.hostname!r} is not served here; see server.allowed_hosts.")
    origin = request.headers.get("Origin")
    if origin is None or origin in server.allowed_origins:
        return
    if urlsplit(origin).netloc != host.netloc:
        raise forbidden(f"Origin {origin!r} may not call; see server.allowed_origins.")


def is_unix(request: web.Request) -> bool:
    """True if the request came over the admin socket."""
    transport = request.transport
    connection = transport.get_extra_info("socket") if transport is not None else None
    return connection is not None and connection.family == socket.AF_UNIX


def _is_our_host(hostname: str | None, server: ServerSettings) -> bool:
    if hostname is None:
        return False
    if hostname in (server.host.lower(), *server.allowed_hosts):
        return True
    return is_loopback(server.host) and is_loopback(hostname)


def _find_key(request: web.Request, keys: tuple[ApiKey, ...]) -> ApiKey:
    """Every key is compared, in constant time, so that time tells nothing."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    digest = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).hexdigest()
    matches = [key for key in keys if hmac.compare_digest(key.sha256, digest)]
    if scheme.lower() != "bearer" or not matches:
        raise ApiError(401, "Incorrect API key provided.", code="invalid_api_key")
    return matches[0]
