"""What an update works with; wired in agent/daemon.py."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from memory.child import RunChild
from memory.completions import InferenceClient
from memory.records import Version
from memory.store import Store
from memory.tokens import Tokenizer
from updater.settings import UpdaterSettings


class Publisher(Protocol):
    """Who holds the pointer to the live version (agent/publishing.py)."""

    live: Version

    async def flip(self, version: Version) -> None:
        """Make `version`, which is resident or loadable, the one that new requests get; the old one drains."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateDeps:
    """The collaborators of an update."""

    store: Store
    engine: InferenceClient
    tokenizer: Tokenizer
    publisher: Publisher
    run_child: RunChild
    settings: UpdaterSettings
    data_dir: Path
    model_dir: Path
    base_fingerprint: str
    now: Callable[[], datetime]
    publishing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One publication or rollback at a time: each takes the next number, and each replaces the live version."""
