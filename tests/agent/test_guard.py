"""Who may ask: Host, Origin, keys, the admin socket. And what a body may hold."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from agent.api.errors import ApiError
from agent.api.json_body import parse_json
from agent.keys import digest_of
from agent.tables import ServerSettings
from memory.records import ApiKey, utc_now
from memory.states import Scope
from memory.tokens import Tokenizer
from tests.agent.edge import Edge, a_chat, an_edge

KEY, MANY_KEY, ADMIN_KEY = "sk-one", "sk-many", "sk-admin"


SERVER = ServerSettings(allowed_origins=("https://chat.example",))


def some_keys() -> list[ApiKey]:
    given = (
        (KEY, "one", Scope.USER, False),
        (MANY_KEY, "many", Scope.HARNESS, True),
        (ADMIN_KEY, "admin", Scope.ADMIN, True),
    )
    return [
        ApiKey(id=name, sha256=digest_of(token), scope=scope, learn=learn, created_at=utc_now())
        for token, name, scope, learn in given
    ]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost:1"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Origin": "http://["}, 403),
    ],
)
async def test_foreign_hosts_and_origins_are_refused(edge: Edge, headers: dict[str, str], status: int) -> None:
    """A page in somebody's browser cannot reach the daemon, by its own name or by another for ours."""
    assert (await edge.get("/v1/models", **headers))[0] == status
    assert (await edge.get("/v1/models", Origin=edge.url))[0] == 200


async def test_a_configured_page_may_call_from_a_browser(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Its preflight is answered and its answers may be read; those of any other page are refused."""
    async with an_edge(tokenizer, tmp_path / "data", server=SERVER, keys=some_keys()) as edge:
        headers = {"Origin": "https://chat.example", "Authorization": f"Bearer {KEY}"}
        for method in ("OPTIONS", "GET"):
            async with edge.http.request(method, f"{edge.url}/v1/models", headers=headers) as response:
                assert response.status in (200, 204)
                assert response.headers["Access-Control-Allow-Origin"] == "https://chat.example"
                assert "Authorization" in response.headers["Access-Control-Allow-Headers"]
        assert (await edge.get("/v1/models", Origin="https://evil.example"))[0] == 403


async def test_every_route_but_health_asks_for_a_key(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """With keys, all routes are closed without one, and administration is closed to all but an admin key."""
    async with an_edge(tokenizer, tmp_path / "data", server=SERVER, keys=some_keys()) as edge:
        for route in edge.app.router.routes():
            if route.method == "HEAD" or route.resource is None:
                continue
            path = route.resource.canonical.replace("{id}", "x")
            expected = 200 if path in ("/healthz", "/readyz") else 401
            assert await status_of(edge, route, path, {}) == expected, path
            if path.startswith(("/admin", "/metrics")):
                for key in (KEY, MANY_KEY):
                    assert await status_of(edge, route, path, {"Authorization": f"Bearer {key}"}) == 403, path
                status = await status_of(edge, route, path, {"Authorization": f"Bearer {ADMIN_KEY}"})
                assert (status in (401, 403)) is (path == "/admin/backup"), path  # the admin socket's alone


async def test_principals_follow_from_keys(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """A key is a principal; one that speaks for many is one with each user; learn = false is inherited by its rows."""
    async with an_edge(tokenizer, tmp_path / "data", server=SERVER, keys=some_keys()) as edge:
        for key, user in ((KEY, "p1"), (MANY_KEY, "p1"), (MANY_KEY, None)):
            body = a_chat(user=user)
            status, _, _ = await edge.post("/v1/chat/completions", body, Authorization=f"Bearer {key}")
            assert status == 200
        assert [(row.principal, row.key_id, row.learn) for row in edge.stored] == [
            ("one", "one", False),
            ("many/p1", "many", True),
            ("many", "many", True),
        ]
        status, _, headers = await edge.post("/v1/chat/completions", a_chat(), Authorization="Bearer sk-other")
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")


async def test_feedback_on_someone_elses_answer_finds_nothing(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """What belongs to another key does not exist for the caller."""
    async with an_edge(tokenizer, tmp_path / "data", server=SERVER, keys=some_keys()) as edge:
        await edge.post("/v1/chat/completions", a_chat(), Authorization=f"Bearer {KEY}")
        body = {"interaction_id": edge.stored[0].id, "score": 1}
        assert (await edge.post("/v1/feedback", body, Authorization=f"Bearer {MANY_KEY}"))[0] == 404
        assert (await edge.post("/v1/feedback", body, Authorization=f"Bearer {KEY}"))[0] == 200


async def test_the_admin_socket_needs_no_key(tokenizer: Tokenizer, tmp_path: Path, short_path: Path) -> None:
    """Who can open the socket owns the data directory, and may speak of every answer."""
    async with an_edge(tokenizer, tmp_path / "data", server=SERVER, keys=some_keys()) as edge:
        runner = web.AppRunner(edge.app)
        await runner.setup()
        await web.UnixSite(runner, str(short_path / "admin.sock")).start()
        connector = aiohttp.UnixConnector(str(short_path / "admin.sock"))
        async with aiohttp.ClientSession(connector=connector) as session:
            for path in ("/admin/status", "/v1/models"):
                async with session.get(f"http://anything{path}") as response:
                    assert response.status == 200
            await edge.post("/v1/chat/completions", a_chat(), Authorization=f"Bearer {KEY}")
            said = {"interaction_id": edge.stored[0].id, "score": 1}
            async with session.post("http://anything/v1/feedback", json=said) as response:
                assert response.status == 200
        await runner.cleanup()


@given(body=st.binary(max_size=200))
def test_any_bytes_are_an_object_or_a_400(body: bytes) -> None:
    """Nothing that comes in as a body is a fault of ours."""
    try:
        found = parse_json(body)
    except ApiError as error:
        found = {"status": error.status}
        assert found == {"status": 400}
    assert isinstance(found, dict)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"a": 1, "a": 2}',
        b'{"a": NaN}',
        b'{"a": 1e400}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b'{"a": "\\u0000"}',
        b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"a": ' + b"[" * 100_000,
    ],
)
async def test_what_a_lenient_reader_would_accept_is_a_400(edge: Edge, body: bytes) -> None:
    """Repeated keys, numbers beyond range, bad text and absurd depth are refused, not stored."""
    async with edge.http.post(f"{edge.url}/v1/chat/completions", data=body) as response:
        assert response.status == 400
        assert (await response.json())["error"]["type"] == "invalid_request_error"


async def test_a_body_that_is_too_large_is_413(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """The limit comes from the configuration."""
    async with an_edge(tokenizer, tmp_path / "data", server=ServerSettings(max_body_mib=0.01)) as edge:
        status, answer, _ = await edge.post("/v1/chat/completions", a_chat("x" * 20_000))
        assert (status, answer["error"]["code"]) == (413, "request_entity_too_large")


async def status_of(edge: Edge, route: web.AbstractRoute, path: str, headers: dict[str, str]) -> int:
    async with asyncio.timeout(10), edge.http.request(route.method, f"{edge.url}{path}", headers=headers) as response:
        return response.status


async def test_a_body_that_is_not_encoded_as_it_says_is_a_400(edge: Edge) -> None:
    """Found by benchmarks/bad_input.py, where it was a 500."""
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector, skip_auto_headers=["Accept-Encoding"]) as session,
        session.post(f"{edge.url}/v1/feedback", data=_raw(b"{}"), headers=headers) as response,
    ):
        assert response.status == 400
        assert "not encoded as" in (await response.json())["error"]["message"]


async def _raw(body: bytes) -> AsyncIterator[bytes]:
    """A stream, which the client sends as it is."""
    yield body
