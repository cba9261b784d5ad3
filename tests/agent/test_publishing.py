"""Which version answers: flips, drains, pins, restarts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.publishing import LivePolicy, UnknownModelError, find_live
from memory.records import utc_now
from memory.store import Store
from memory.tokens import Tokenizer
from tests.agent.edge import add_version
from tests.fakes import FakeEngine


@pytest.fixture
def engine(tokenizer: Tokenizer) -> FakeEngine:
    return FakeEngine(tokenizer)


@pytest.fixture
async def policy(store: Store, engine: FakeEngine, tmp_path: Path) -> LivePolicy:
    live = await find_live(store, "base-print", now=utc_now())
    return LivePolicy(store=store, engine=engine, data_dir=tmp_path, live=live)


@asynccontextmanager
async def unloading(policy: LivePolicy) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(policy.unload_drained())
        yield
        task.cancel()


async def until(engine: FakeEngine, *resident: str) -> None:
    while await engine.list_models() != ("base", *resident):  # noqa: ASYNC110 - a fake announces nothing
        await asyncio.sleep(0.001)


async def test_a_base_seen_for_the_first_time_opens_a_lineage(store: Store) -> None:
    """v0 is made once; another base model goes on with the next number and its own line."""
    first = await find_live(store, "one", now=utc_now())
    again = await find_live(store, "one", now=utc_now())
    other = await find_live(store, "two", now=utc_now())
    assert (first.number, again, other.number) == (0, first, 1)


async def test_names_resolve_within_the_lineage(store: Store, policy: LivePolicy) -> None:
    """agent and policy mean the live version, base the model without adapter, vN itself, anything else nothing."""
    one = await add_version(store, 1)
    await policy.flip(one)
    assert {(await policy.resolve(name)).number for name in ("agent", "policy", "policy@v1")} == {1}
    assert {(await policy.resolve(name)).number for name in ("base", "policy@v0")} == {0}
    for name in ("policy@v2", "gpt", ""):
        with pytest.raises(UnknownModelError):
            await policy.resolve(name)


async def test_requests_keep_the_version_they_were_admitted_to(
    store: Store, policy: LivePolicy, engine: FakeEngine
) -> None:
    """After a flip new requests get the new version; the old one stays until its last request ends."""
    one, two = await add_version(store, 1), await add_version(store, 2)
    await policy.flip(one)
    async with unloading(policy):
        async with policy.hold("policy") as before:
            await policy.flip(two)
            async with policy.hold("policy") as after:
                assert (before.engine_model, after.engine_model) == ("policy@v1", "policy@v2")
                assert "policy@v1" in await engine.list_models()
        await until(engine, "policy@v2")


async def test_few_pinned_versions_stay(store: Store, policy: LivePolicy, engine: FakeEngine) -> None:
    """Versions that were asked for by name stay resident until there are too many; the oldest in use goes first."""
    for number in range(1, 5):
        await add_version(store, number)
    async with unloading(policy):
        for number in (1, 2, 1, 3, 4):
            async with policy.hold(f"policy@v{number}"):
                pass
        await until(engine, "policy@v3", "policy@v4")


async def test_an_unloaded_version_comes_back_when_asked_for(
    store: Store, policy: LivePolicy, engine: FakeEngine
) -> None:
    """A version that drained is loaded again for whoever pins it."""
    one, two = await add_version(store, 1), await add_version(store, 2)
    async with unloading(policy):
        await policy.flip(one)
        await policy.flip(two)
        await until(engine, "policy@v2")
        async with policy.hold("policy@v1") as served:
            assert served.engine_model in await engine.list_models()


async def test_a_restarted_engine_gets_back_what_is_needed(
    store: Store, policy: LivePolicy, engine: FakeEngine
) -> None:
    """The live version and those that requests hold are loaded again; nothing else is."""
    for number in (1, 2, 3):
        await add_version(store, number)
    async with policy.hold("policy@v1"):
        async with policy.hold("policy@v2"):
            pass
        await policy.flip(await policy.resolve("policy@v3"))
        engine.resident = ["base"]
        await policy.restore()
        assert set(await engine.list_models()) == {"base", "policy@v1", "policy@v3"}


async def test_a_live_version_that_will_not_load_gives_way_to_its_parent(
    store: Store, engine: FakeEngine, tmp_path: Path
) -> None:
    """Serving goes on with the nearest version that loads, down to the base."""
    await find_live(store, "base-print", now=utc_now())
    await add_version(store, 1)
    live = await add_version(store, 2, parent=1)
    engine.rejects |= {"policy@v2"}
    policy = LivePolicy(store=store, engine=engine, data_dir=tmp_path, live=live)
    await policy.restore()
    assert policy.live.number == 1
    engine.rejects |= {"policy@v1"}
    engine.resident = ["base"]
    await policy.restore()
    assert policy.live.number == 0


async def test_a_flip_survives_the_engine_being_away(store: Store, policy: LivePolicy, engine: FakeEngine) -> None:
    """The row was the commit: the pointer moves, and the engine loads the version when it is back."""
    one = await add_version(store, 1)
    engine.is_away = True
    await policy.flip(one)
    assert policy.live.number == 1
    engine.is_away = False
    await policy.restore()
    assert "policy@v1" in await engine.list_models()
