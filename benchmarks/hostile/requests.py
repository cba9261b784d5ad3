"""Requests with something wrong: fields at their edges, JSON of every kind of malformation, headers, queries, names."""

import json
import random
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from annotated_types import Ge, Gt, Le, Lt, MaxLen
from pydantic import BaseModel

from agent.api.admin import RollbackBody
from agent.api.chat_schema import ChatBody
from agent.api.feedback import FeedbackBody
from agent.api.keys import KeyBody
from agent.api.schedule import ScheduleBody
from agent.schedules import KEYS
from benchmarks.hostile.cases import EDGES, Case

Json = dict[str, Any]

CHAT_PATH = "/v1/chat/completions"
GOOD_CHAT: Json = {
    "model": "policy",
    "messages": [{"role": "user", "content": "What is a glacier?"}],
    "max_tokens": 1,
    "temperature": 0.5,
    "stop": ["\n"],
    "metadata": {"a": "b"},
}
GOOD: Mapping[str, tuple[type[BaseModel], Json]] = {
    CHAT_PATH: (ChatBody, GOOD_CHAT),
    "/v1/feedback": (FeedbackBody, {"interaction_id": "nothing", "score": 1, "metric": {"name": "a", "value": 1}}),
    "/admin/schedule": (ScheduleBody, {"kind": "reflect", "set": {"after_interactions": 0}}),
    "/admin/keys": (KeyBody, {"id": "somebody"}),
    "/admin/rollback": (RollbackBody, {"to": 10**6}),
}
NESTED = {
    CHAT_PATH: (
        ("messages", 0, "role"),
        ("messages", 0, "content"),
        ("messages", 0),
        ("stream_options",),
        ("response_format",),
        ("logit_bias",),
        ("tools",),
        ("functions",),
    ),
    "/v1/feedback": (("metric", "name"), ("metric", "value")),
    "/admin/schedule": tuple(("set", key) for key in KEYS),
    "/admin/keys": (),
    "/admin/rollback": (),
}
SLOW = {("max_tokens",), ("max_completion_tokens",), ("n",)}
"""Fields where a value that is taken costs time: the model stops at one token all the same."""
IDS = (
    "",
    "nothing",
    "%00",
    "%ff",
    "..",
    "%2e%2e%2f",
    "a" * 5000,
    "%F0%9F%92%A9",
    "'--",
    "-1",
    "1e9",
    "{id}",
    "%0d%0aX:%20y",
)
LIMITS = (
    "",
    "0",
    "-1",
    "1001",
    "1e3",
    "abc",
    "999999999999999999999",
    "%00",
    "1;2",
    "%EF%BC%91",
    "1%20",
    "0x10",
    "null",
    "1.0",
    "+5",
)
TEXTS = (
    "",
    " ",
    "\t",
    "x" * 257,
    "x" * 7000,
    "é",
    "\x7f",
    "a,b",
    "null",
    "0",
    "'; --",
    "%00",
    "\\",
    '"',
    "Bearer",
    "=" * 50,
)


def field_cases() -> Iterator[Case]:
    """Every field of every body at its own bounds and at the edges of everything; and left out."""
    for path, (schema, good) in GOOD.items():
        places: list[tuple[Any, ...]] = [(name,) for name in schema.model_fields]
        for place in dict.fromkeys([*places, *NESTED[path]]):
            for value in (*EDGES, *_bounds(schema, place)):
                body = _with(good, place, value)
                if place in SLOW and path == CHAT_PATH:
                    body |= {"stop": None, "logit_bias": {"2": 100}}  # the end of the turn, at once
                text = json.dumps(body).encode()
                # What no JSON reader takes is refused as a whole, before any field is looked at.
                named = None if b"NaN" in text or b"Infinity" in text or b"\\u0000" in text else str(place[0])
                yield Case(
                    area="fields", name=f"{path} {_dotted(place)} = {value!r:.60}", path=path, body=text, named=named
                )
            yield Case(
                area="fields",
                name=f"{path} without {_dotted(place)}",
                path=path,
                body=json.dumps(_without(good, place)).encode(),
            )


def json_cases(*, num_random: int) -> Iterator[Case]:
    """A good body cut at every byte, changed at random, and every malformation that has a name."""
    for path, (_, good) in GOOD.items():
        whole = json.dumps(good).encode()
        for length in range(len(whole)):
            yield Case(area="JSON", name=f"{path} cut after {length} bytes", path=path, body=whole[:length])
        rng = random.Random(path)  # noqa: S311 - draws that can be repeated
        for number in range(num_random):
            yield Case(area="JSON", name=f"{path} change {number}", path=path, body=_changed(whole, rng))
    for name, body in _malformations():
        for path in GOOD:
            yield Case(area="JSON", name=f"{path} {name}", path=path, body=body)


def header_cases() -> Iterator[Case]:
    """Headers that the daemon reads, with what nobody should send in them."""
    body = json.dumps(GOOD_CHAT).encode()
    for header in (
        "Idempotency-Key",
        "X-Session-Id",
        "Authorization",
        "Content-Type",
        "X-Request-Id",
        "Accept",
        "Cookie",
    ):
        for value in TEXTS:
            named = header if header in {"Idempotency-Key", "X-Session-Id"} else None
            yield Case(
                area="headers",
                name=f"{header}: {value!r:.40}",
                path=CHAT_PATH,
                body=body,
                headers={header: value},
                named=named,
            )


def query_cases() -> Iterator[Case]:
    """Queries and names in paths."""
    for path in ("passes", "reflections", "clusters", "updates", "versions", "interactions"):
        for value in LIMITS:
            yield Case(
                area="queries",
                name=f"{path}?limit={value}",
                method="GET",
                path=f"/admin/{path}?limit={value}",
                named="limit",
            )
        for query in ("limit=1&limit=2", "pass=%00", "cluster=%ff", "&&&", "=", "limit", "a" * 3000):
            yield Case(area="queries", name=f"{path}?{query:.30}", method="GET", path=f"/admin/{path}?{query}")
    for method, path in (
        ("GET", "/v1/models/"),
        ("GET", "/admin/passes/"),
        ("GET", "/admin/updates/"),
        ("GET", "/admin/interactions/"),
        ("GET", "/admin/why/"),
        ("GET", "/"),
        ("GET", "/admin/"),
    ):
        for value in IDS:
            yield Case(area="queries", name=f"{path}{value:.30}", method=method, path=f"{path}{value}")
    for value in IDS:
        yield Case(area="queries", name=f"revoke {value:.30}", path=f"/admin/keys/{value}/revoke", body=b"{}")
        yield Case(area="queries", name=f"abort {value:.30}", path=f"/admin/passes/{value}/abort", body=b"{}")
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "HEAD"):
        for path in GOOD:
            yield Case(area="queries", name=f"{method} {path}", method=method, path=path, body=b"{}")


def _bounds(schema: type[BaseModel], place: tuple[Any, ...]) -> Iterator[Any]:
    """On, just inside and just outside of a field's own bounds."""
    info = schema.model_fields.get(str(place[0])) if len(place) == 1 else None
    for rule in info.metadata if info is not None else ():
        match rule:
            case Ge(ge=bound) | Gt(gt=bound) | Le(le=bound) | Lt(lt=bound):
                yield from (bound - 1, bound, bound + 1)  # type: ignore[operator]
            case MaxLen(max_length=bound):
                yield from ("y" * (bound - 1), "y" * bound, "y" * (bound + 1), ["y"] * (bound + 1))


def _malformations() -> Iterator[tuple[str, bytes]]:
    yield "empty", b""
    for depth in (10, 63, 64, 65, 100, 1000, 100_000):
        yield f"{depth} lists deep", b'{"a": ' + b"[" * depth + b"]" * depth + b"}"
        yield f"{depth} objects deep", b'{"a": ' * depth + b"1" + b"}" * depth
        yield f"{depth} deep and never closed", b'{"a": ' + b"[" * depth
    for digits in (20, 400, 4299, 4301, 200_000):
        yield f"{digits} digits", b'{"seed": ' + b"9" * digits + b"}"
        yield f"{digits} decimals", b'{"temperature": 0.' + b"9" * digits + b"}"
    for text in (
        "NaN",
        "Infinity",
        "-Infinity",
        "1e400",
        "-1e400",
        "1e-400",
        "01",
        "+1",
        ".5",
        "1.",
        "0x10",
        "1_000",
        "--1",
    ):
        yield f"the number {text}", f'{{"temperature": {text}}}'.encode()
    for text in ("\\ud800", "\\udfff", "\\u0000", "\\ud800\\ud800", "\\x41", "\\u12", "\\", "\x01", "\x7f"):
        yield f"the text {text!r}", f'{{"model": "{text}"}}'.encode()
    for raw in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\xe2\x82", b"\x80"):
        yield f"the bytes {raw!r}", b'{"model": "' + raw + b'"}'
    for encoding in ("utf-16", "utf-16-le", "utf-32", "utf-8-sig"):
        yield f"in {encoding}", json.dumps(GOOD_CHAT).encode(encoding)
    for text in (
        "[]",
        "null",
        "1",
        '"a"',
        "true",
        "{}{}",
        "{} x",
        "{,}",
        '{"a":1,}',
        "{a:1}",
        "{'a':1}",
        '{"a" 1}',
        "// x\n{}",
    ):
        yield f"the document {text}", text.encode()
    yield "a key twice", b'{"model": "policy", "model": "base", "messages": []}'
    yield "a key twice, nested", b'{"messages": [{"role": "user", "role": "user"}]}'
    yield "many keys", json.dumps({f"k{i}": i for i in range(20_000)}).encode()
    yield "many messages", json.dumps({**GOOD_CHAT, "messages": GOOD_CHAT["messages"] * 2049}).encode()
    yield "larger than the limit", b'{"model": "' + b"x" * (5 * 1024 * 1024) + b'"}'
    yield "zeros", b"\0" * 1000
    yield "blanks", b" " * 100_000
    yield "gzip", b"\x1f\x8b\x08\x00" + b"\0" * 100


def _changed(whole: bytes, rng: random.Random) -> bytes:
    changed = bytearray(whole)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[place] = rng.randrange(256)
            case 1:
                del changed[place]
            case 2:
                changed[place:place] = rng.choice(
                    (b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"0", b"-", b"null", b"e9")
                )
            case _:
                end = min(len(changed), place + rng.randint(1, 12))
                changed[place:place] = changed[place:end]
    return bytes(changed)


def _with(good: Json, place: tuple[Any, ...], value: Any) -> Json:
    body = deepcopy(good)
    inner: Any = body
    for part in place[:-1]:
        inner = inner.setdefault(part, {}) if isinstance(inner, dict) else inner[part]
    inner[place[-1]] = value
    return body


def _without(good: Json, place: tuple[Any, ...]) -> Json:
    body = deepcopy(good)
    inner: Any = body
    for part in place[:-1]:
        inner = inner.get(part, {}) if isinstance(inner, dict) else inner[part]
    if isinstance(inner, dict):
        inner.pop(place[-1], None)
    return body


def _dotted(place: tuple[Any, ...]) -> str:
    return ".".join(map(str, place))
