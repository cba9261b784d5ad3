"""The HTTP edge over a real store and a real socket, with an engine that says what it is told."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from agent.api.app import build_app
from agent.api.context import Context, Phase
from agent.api.metrics import Metrics
from agent.clock import Clock
from agent.generate import Generator
from agent.keys import KeyRing
from agent.passes import Kind, Passes, Report, RunPass
from agent.publishing import LivePolicy, find_live
from agent.respond import Parts, Responder
from agent.schedules import Schedules
from agent.tables import PolicySettings, ServerSettings
from memory.index import VectorIndex
from memory.recall import Recall
from memory.records import ApiKey, Interaction, Version, utc_now
from memory.settings import MemorySettings
from memory.states import VersionOrigin
from memory.store import Store, open_store
from memory.tokens import Tokenizer
from reflection.settings import ScheduleSettings
from tests.fakes import FakeEngine
from tests.fakes_memory import FakeEmbedder

Json = dict[str, Any]

SYSTEM_PROMPT = "Be kind."
SERVER = ServerSettings()


@dataclass
class Edge:
    """A served application and everything behind it."""

    url: str
    http: aiohttp.ClientSession
    app: web.Application
    store: Store
    engine: FakeEngine
    policy: LivePolicy
    responder: Responder
    passes: Passes
    schedules: Schedules
    phase: Phase
    keys: KeyRing
    stored: list[Interaction] = field(default_factory=list)

    async def post(self, path: str, body: object, **headers: str) -> tuple[int, Json, Mapping[str, str]]:
        """Status, JSON and headers of an answer."""
        async with self.http.post(f"{self.url}{path}", json=body, headers=as_headers(headers)) as response:
            return response.status, await response.json(), response.headers

    async def get(self, path: str, **headers: str) -> tuple[int, Json]:
        async with self.http.get(f"{self.url}{path}", headers=as_headers(headers)) as response:
            return response.status, await response.json()

    async def chat(self, text: str = "What is a glacier?", *, history: Sequence[Json] = (), **body: object) -> Json:
        """The answer to one user message; fails unless it is 200."""
        status, answer, headers = await self.post("/v1/chat/completions", a_chat(text, history=history, **body))
        assert status == 200, answer
        return {**answer, "headers": headers}


def a_chat(text: str = "What is a glacier?", *, history: Sequence[Json] = (), **body: object) -> Json:
    return {"model": "policy", "messages": [*history, {"role": "user", "content": text}], **body}


def as_headers(names: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in names.items()}


@asynccontextmanager
async def an_edge(
    tokenizer: Tokenizer,
    data_dir: Path,
    *,
    server: ServerSettings = SERVER,
    keys: Sequence[ApiKey] = (),
    runs: Mapping[Kind, RunPass] | None = None,
) -> AsyncIterator[Edge]:
    engine = FakeEngine(tokenizer)
    stored: list[Interaction] = []
    async with open_store(data_dir) as store, aiohttp.ClientSession() as http, asyncio.TaskGroup() as background:
        live = await find_live(store, "base-print", now=utc_now())
        policy = LivePolicy(store=store, engine=engine, data_dir=data_dir, live=live)
        recall = Recall(
            store, VectorIndex(), embedder=FakeEmbedder(), tokenizer=tokenizer, settings=MemorySettings(), now=utc_now
        )
        phase = Phase(is_engine_ready=lambda: not engine.is_away, has_started=True)
        configured: dict[str, ScheduleSettings] = {kind: ScheduleSettings() for kind in Kind}
        schedules = Schedules(configured=configured, clock=Clock(store=store, now=utc_now), store=store)
        await schedules.restore()
        ring = KeyRing(store, now=utc_now)
        await ring.load()
        for key in keys:
            await ring.add(key)

        def note_stored(rows: Sequence[Interaction]) -> None:
            stored.extend(rows)
            ring.note_sampled(rows)

        passes = Passes(
            store=store,
            runs=dict(runs or dict.fromkeys(Kind, _no_pass)),
            note_started=schedules.clock.note_started,
            max_duration_s=schedules.max_duration_s,
            live_version=lambda: policy.live.number,
            now=utc_now,
        )
        parts = Parts(
            store=store,
            tokenizer=tokenizer,
            policy=policy,
            recall=recall,
            generator=Generator(engine=engine, tokenizer=tokenizer, wait_ready=_ready),
            system_prompt=SYSTEM_PROMPT,
            context_length=tokenizer.max_positions,
            on_stored=note_stored,
            now=utc_now,
        )
        running = background.create_task(passes.run())
        async with asyncio.TaskGroup() as turns:
            responder = Responder(parts, turns)
            context = Context(
                data_dir=data_dir,
                server=server,
                keys=ring,
                sampling_defaults=PolicySettings(max_tokens=64),
                store=store,
                tokenizer=tokenizer,
                policy=policy,
                responder=responder,
                passes=passes,
                schedules=schedules,
                phase=phase,
                metrics=Metrics(),
                read_status=_status,
                roll_back=_roll_back_on(store, policy),
                now=utc_now,
            )
            app = build_app(context)
            async with TestServer(app, handler_cancellation=True) as site:
                url = str(site.make_url("")).rstrip("/")
                yield Edge(url, http, app, store, engine, policy, responder, passes, schedules, phase, ring, stored)
                responder.abandon_all("the test is over")
                engine.may_go_on.set()
        running.cancel()


async def add_version(
    store: Store, number: int, *, parent: int = 0, origin: VersionOrigin = VersionOrigin.UPDATE
) -> Version:
    """A version with an adapter, as the updater would write it."""
    version = Version(
        number=number,
        parent=parent,
        origin=origin,
        update_id=None,
        adapter_path=f"versions/v{number}",
        sha256="0" * 64,
        base_fingerprint="base-print",
        created_at=utc_now(),
    )
    await store.updates.add_version(version)
    return version


def events_of(text: str) -> list[str]:
    """The data of every server-sent event."""
    return [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]


async def _ready(_timeout_s: float) -> None:
    """The engine counts as back at once."""


async def _no_pass(*, trigger: str, run_id: str, report: Report) -> None:
    report("nothing to do", 1, 1)


async def _status() -> dict[str, object]:
    return {"url": "here"}


def _roll_back_on(store: Store, policy: LivePolicy) -> Any:
    async def roll_back(to: int) -> Version:
        old = await store.updates.version(to)
        assert old is not None
        numbers = [version.number for version in await store.updates.versions()]
        version = await add_version(store, max(numbers) + 1, parent=policy.live.number, origin=VersionOrigin.ROLLBACK)
        await policy.flip(version)
        return version

    return roll_back
