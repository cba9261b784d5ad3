"""Who speaks, and whether a request may come from where it comes from.

Until a key is made everybody on this machine is the operator: one principal, or one per `user` that a request names.
With keys the principal is the key, or (key, user) for a key that speaks for many. The Unix socket is guarded by its
file mode, so it needs neither key nor Host. Host and Origin are checked on all other requests: a web page must not
reach us through the browser of someone who runs a daemon.
"""

import socket
from urllib.parse import SplitResult, urlsplit

from aiohttp import web

from agent.api.errors import ApiError, forbidden, too_many
from agent.keys import LOCAL, KeyRing
from agent.tables import ServerSettings, is_loopback
from agent.turn import Caller
from memory.records import ApiKey
from memory.states import Scope

KEY = web.RequestKey("key", ApiKey)
"""With what a request was let in; absent where keys are not asked for, and on the admin socket."""


def let_in(request: web.Request, keys: KeyRing, server: ServerSettings) -> None:
    """Find the key that a request needs and count the request. Raises ApiError 401 or 429."""
    if is_unix(request) or not (keys.is_asked_for or not is_loopback(server.host)):
        return
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    key = keys.find(token.strip()) if scheme.lower() == "bearer" else None
    if key is None:
        raise ApiError(401, "Incorrect API key provided.", code="invalid_api_key")
    wait_s = keys.take_request(key)
    if wait_s:
        message = f"The key {key.id!r} may ask {key.requests_per_minute} times a minute."
        raise too_many(message, code="rate_limit_exceeded", retry_after_s=wait_s)
    request[KEY] = key


def caller_of(request: web.Request, *, user: str | None) -> Caller:
    """Who speaks in a request that was let in and names `user`."""
    key = request.get(KEY)
    if key is None:
        return Caller(principal=f"{LOCAL}/{user}" if user else LOCAL, is_operator=is_unix(request))
    speaks_for_many = key.scope is not Scope.USER
    principal = f"{key.id}/{user}" if user and speaks_for_many else key.id
    return Caller(principal=principal, key_id=key.id, learn=key.learn, is_operator=key.scope is Scope.ADMIN)


def require_quota(request: web.Request, keys: KeyRing) -> None:
    """Raises ApiError 429 where the key has sampled its tokens of the day."""
    key = request.get(KEY)
    wait_s = keys.quota_wait(key) if key is not None else 0.0
    if key is not None and wait_s:
        message = f"The key {key.id!r} has used its {key.tokens_per_day} tokens of 24 hours."
        raise too_many(message, code="insufficient_quota", retry_after_s=wait_s)


def may_speak_for(caller: Caller, principal: str) -> bool:
    """True if what belongs to `principal` is the caller's own: its user's, or all of its key's."""
    owner = caller.key_id or LOCAL
    return (
        caller.is_operator
        or caller.principal == principal
        or (caller.principal == owner and principal.startswith(f"{owner}/"))
    )


def require_admin(request: web.Request) -> None:
    """Once there are keys, administration is by the Unix socket or by an admin key. Raises ApiError 403."""
    key = request.get(KEY)
    if key is not None and key.scope is not Scope.ADMIN:
        raise forbidden(f"The key {key.id!r} may chat and give feedback; administration needs an admin key.")


def check_origin(request: web.Request, server: ServerSettings) -> None:
    """Refuse foreign Host and Origin headers. Raises ApiError 403."""
    if is_unix(request):
        return
    host = _address(f"//{request.headers.get('Host', '')}")
    if host is None or not _is_our_host(host.hostname, server):
        raise forbidden(f"Host {request.headers.get('Host')!r} is not served here; see server.allowed_hosts.")
    origin = request.headers.get("Origin")
    if origin is None or origin in server.allowed_origins:
        return
    page = _address(origin)
    if page is None or page.netloc != host.netloc:
        raise forbidden(f"Origin {origin!r} may not call; see server.allowed_origins.")


def is_unix(request: web.Request) -> bool:
    """True if the request came over the admin socket."""
    transport = request.transport
    connection = transport.get_extra_info("socket") if transport is not None else None
    return connection is not None and connection.family == socket.AF_UNIX


def _address(text: str) -> SplitResult | None:
    """The parts of an address; None where it is none."""
    try:
        return urlsplit(text)
    except ValueError:
        return None


def _is_our_host(hostname: str | None, server: ServerSettings) -> bool:
    if hostname is None:
        return False
    if hostname in (server.host.lower(), *server.allowed_hosts):
        return True
    return is_loopback(server.host) and is_loopback(hostname)
