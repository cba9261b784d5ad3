"""The key ring: what a key may do, how much of it, and from when on no more."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from agent.keys import KeyRefusedError, KeyRing, make_key
from memory.records import ApiKey, utc_now
from memory.states import Scope
from memory.store import Store, open_store
from memory.tokens import Tokenizer
from tests.agent.edge import a_chat, an_edge


@dataclass
class Hands:
    """A clock that is turned by hand."""

    wall: datetime = field(default_factory=utc_now)
    monotonic_s: float = 1000.0

    def turn(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.monotonic_s += seconds


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path) as opened:
        yield opened


async def a_ring(store: Store, hands: Hands | None = None) -> KeyRing:
    clock = hands or Hands()
    ring = KeyRing(store, now=lambda: clock.wall, monotonic_s=lambda: clock.monotonic_s)
    await ring.load()
    return ring


def a_key(name: str = "team", **changes: int) -> tuple[ApiKey, str]:
    key, token = make_key(name, scope=Scope.USER, now=utc_now(), **changes)  # type: ignore[arg-type]
    assert token is not None
    return key, token


async def test_a_key_opens_from_the_moment_it_is_made_until_it_is_revoked(store: Store) -> None:
    """Also for the next daemon; and revoking the last one does not open the door to everybody."""
    ring = await a_ring(store)
    assert ring.keys == ()
    key, token = a_key()
    await ring.add(key)
    assert ring.find(token) == key
    assert (await a_ring(store)).find(token) == key
    assert ring.find(f"{token}x") is None
    await ring.revoke("team")
    assert ring.find(token) is None
    assert ring.is_asked_for
    assert (await a_ring(store)).is_asked_for


async def test_names_and_texts_are_given_once(store: Store) -> None:
    """A revoked key's rows keep their meaning."""
    ring = await a_ring(store)
    key, token = a_key()
    await ring.add(key)
    await ring.revoke("team")
    with pytest.raises(KeyRefusedError, match="already"):
        await ring.add(a_key()[0])
    with pytest.raises(KeyRefusedError, match="already"):
        await ring.add(make_key("other", scope=Scope.USER, now=utc_now(), sha256=key.sha256)[0])
    with pytest.raises(KeyRefusedError, match="no key 'team' in force"):
        await ring.revoke("team")
    assert token.startswith("jm-")


@pytest.mark.parametrize("name", ["", "local", "a/b", "a b", "x" * 65, "-a", "ä"])
def test_what_cannot_name_a_key(name: str) -> None:
    with pytest.raises(KeyRefusedError, match="cannot name a key"):
        a_key(name)


def test_a_digest_that_is_none_is_refused() -> None:
    """A key that nobody can hold would shut everybody out."""
    for text in ("", "abc", "AB" * 32, "0" * 63):
        with pytest.raises(KeyRefusedError, match="is no sha256"):
            make_key("team", scope=Scope.USER, now=utc_now(), sha256=text)


async def test_an_open_address_needs_a_key_in_force(store: Store) -> None:
    """On loopback none is needed."""
    ring = await a_ring(store)
    for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9"):
        ring.require_for(host)
    with pytest.raises(KeyRefusedError, match="journeyman keys add"):
        ring.require_for("0.0.0.0")
    await ring.add(a_key()[0])
    ring.require_for("0.0.0.0")
    await ring.revoke("team")
    with pytest.raises(KeyRefusedError):
        ring.require_for("0.0.0.0")


async def test_requests_a_minute(store: Store) -> None:
    """A burst up to the limit, then one for every share of the minute that has passed."""
    hands = Hands()
    ring = await a_ring(store, hands)
    key, _ = a_key(requests_per_minute=3)
    await ring.add(key)
    assert [ring.take_request(key) for _ in range(3)] == [0, 0, 0]
    assert ring.take_request(key) == pytest.approx(20)
    hands.turn(19)
    assert ring.take_request(key) == pytest.approx(1)
    hands.turn(1)
    assert ring.take_request(key) == 0
    hands.turn(3600)
    assert [ring.take_request(key) > 0 for _ in range(4)] == [False, False, False, True]


async def test_tokens_a_day(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Refused with 429 and when to come back; a restart does not give the tokens back; a day later they are."""
    key, token = a_key(tokens_per_day=1)
    async with an_edge(tokenizer, tmp_path / "data", keys=[key]) as edge:
        asked = [await edge.post("/v1/chat/completions", a_chat(), Authorization=f"Bearer {token}") for _ in range(2)]
        assert [status for status, _, _ in asked] == [200, 429]
        assert asked[1][1]["error"]["code"] == "insufficient_quota"
        assert 86_000 < int(asked[1][2]["Retry-After"]) <= 86_400
        hands = Hands()
        again = await a_ring(edge.store, hands)
        assert again.quota_wait(key) > 86_000
        hands.turn(86_400)
        assert again.quota_wait(key) == 0


async def test_keys_are_made_shown_and_revoked_over_http(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """The key is in the answer that made it and nowhere else; its digest is never shown."""
    admin, token = make_key("admin", scope=Scope.ADMIN, now=utc_now())
    allowed = {"Authorization": f"Bearer {token}"}
    async with an_edge(tokenizer, tmp_path / "data", keys=[admin]) as edge:
        status, made, _ = await edge.post("/admin/keys", {"id": "bot", "scope": "harness", "learn": False}, **allowed)
        assert (status, made["scope"], made["learn"]) == (201, "harness", False)
        assert (await edge.get("/v1/models", Authorization=f"Bearer {made['key']}"))[0] == 200
        _, shown = await edge.get("/admin/keys", **allowed)
        assert [one["id"] for one in shown["data"]] == ["admin", "bot"]
        assert not {"key", "sha256"} & set(shown["data"][1])
        assert (await edge.post("/admin/keys", {"id": "bot"}, **allowed))[0] == 409
        assert (await edge.post("/admin/keys", {"id": "b", "scope": "root"}, **allowed))[1]["error"]["param"] == "scope"
        assert (await edge.post("/admin/keys/bot/revoke", {}, **allowed))[0] == 200
        assert (await edge.get("/v1/models", Authorization=f"Bearer {made['key']}"))[0] == 401
