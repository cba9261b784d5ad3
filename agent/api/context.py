"""What the handlers are given: the parts of the daemon that HTTP may reach, under one typed key."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

from aiohttp import web

from agent.api.metrics import Metrics
from agent.passes import Passes
from agent.publishing import LivePolicy
from agent.respond import Responder
from agent.tables import PolicySettings, ServerSettings
from memory.records import Version
from memory.store import Store
from memory.tokens import Tokenizer


@dataclass(slots=True)
class Phase:
    """Whether chats are admitted. One object, shared by the daemon (which sets it) and the handlers (which ask)."""

    not_ready: str | None = "starting"
    """Why no chat is admitted: starting, engine, draining; None when all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All that a handler may use."""

    server: ServerSettings
    sampling_defaults: PolicySettings
    store: Store
    tokenizer: Tokenizer
    policy: LivePolicy
    responder: Responder
    passes: Passes
    phase: Phase
    metrics: Metrics
    read_status: Callable[[], Awaitable[dict[str, object]]]
    roll_back: Callable[[int], Awaitable[Version]]
    now: Callable[[], datetime]
    started_at: datetime = field()


CONTEXT = web.AppKey("context", Context)
