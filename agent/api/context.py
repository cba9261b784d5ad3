"""What the handlers are given: the parts of the daemon that HTTP may reach, under one typed key."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from aiohttp import web

from agent.api.metrics import Metrics
from agent.keys import KeyRing
from agent.passes import Passes
from agent.publishing import LivePolicy
from agent.respond import Responder
from agent.schedules import Schedules
from agent.tables import PolicySettings, ServerSettings
from memory.records import Version
from memory.store import Store
from memory.tokens import Tokenizer


@dataclass(slots=True, kw_only=True)
class Phase:
    """Where the daemon is in its life. The daemon moves it on, the handlers ask it."""

    is_engine_ready: Callable[[], bool]
    has_started: bool = False
    is_draining: bool = False
    url: str = ""
    """Where HTTP listens, once it does."""

    @property
    def not_ready(self) -> str | None:
        """Why no chat is admitted; None when all is well."""
        if self.is_draining:
            return "draining"
        if self.is_engine_ready():
            return None
        return "engine_restarting" if self.has_started else "starting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All that a handler may use."""

    data_dir: Path
    server: ServerSettings
    keys: KeyRing
    sampling_defaults: PolicySettings
    store: Store
    tokenizer: Tokenizer
    policy: LivePolicy
    responder: Responder
    passes: Passes
    schedules: Schedules
    phase: Phase
    metrics: Metrics
    read_status: Callable[[], Awaitable[dict[str, object]]]
    roll_back: Callable[[int], Awaitable[Version]]
    now: Callable[[], datetime]


CONTEXT = web.AppKey("context", Context)
REQUEST_ID = web.RequestKey("request_id", str)
