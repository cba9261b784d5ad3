"""Which policy version answers: names become resident adapters, the live version is one pointer, old versions drain.

The engine knows names (`base`, `policy@vN`); this module knows which of them is live, how many requests in flight hold
each, and when one may be unloaded. It implements updater.publish.Publisher. It does not know how a version came to be.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import structlog

from memory.completions import AdapterRejected, EngineUnavailable, InferenceClient
from memory.records import Version
from memory.states import VersionOrigin
from memory.store import Store

log = structlog.get_logger(__name__)

BASE = "base"
LIVE_NAMES = ("agent", "policy")
"""Names that mean the live version; `agent` also gets the system prompt and recalled memory."""
_MAX_IDLE = 2
"""Pinned versions that stay resident although nothing holds them."""


class UnknownModelError(LookupError):
    """No model of that name is offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a request was resolved to at admission. It never changes for that request."""

    engine_model: str
    shown_as: str
    """The name in the answer: `base`, or the version."""
    version: Version


class LivePolicy:
    """The live version and the resident ones."""

    def __init__(self, *, store: Store, engine: InferenceClient, data_dir: Path, live: Version) -> None:
        self.live = live
        self._store = store
        self._engine = engine
        self._data_dir = data_dir
        self._base_fingerprint = live.base_fingerprint
        self._resident: dict[int, Version] = {}
        """In order of last use. v0 is the base model and never listed."""
        self._holds: Counter[int] = Counter()
        self._retired: set[int] = set()
        self._loading = asyncio.Lock()
        self._released = asyncio.Event()

    async def restore(self) -> None:
        """Make the engine, which has just started, hold what it must: the live version and all that requests hold.

        A live version whose bytes the engine refuses gives way to its parent: serving goes on, loudly.
        """
        async with self._loading:
            needed = {number: version for number, version in self._resident.items() if self._holds[number]}
            self._resident.clear()
            for version in needed.values():
                await self._load(version)
            while (reason := await self._refusal(self.live)) is not None:
                self.live = await self._fall_back(self.live, reason)

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[Served]:
        """Resolve a model name and keep its version resident while the block runs. Raises UnknownModelError."""
        version = await self.resolve(name)
        number = version.number
        self._holds[number] += 1  # before it is loaded: a hold is what keeps it from being unloaded meanwhile
        try:
            await self.ensure_resident(version)
            shown_as = BASE if name == BASE else version.name
            yield Served(engine_model=engine_name(version), shown_as=shown_as, version=version)
        finally:
            self._holds[number] -= 1
            self._released.set()

    async def resolve(self, name: str) -> Version:
        """The version behind a model name, as of now."""
        if name in LIVE_NAMES:
            return self.live
        for version in await self.offered():
            if name == version.name or (name == BASE and version.origin is VersionOrigin.BASE):
                return version
        raise UnknownModelError(f"The model {name!r} does not exist.")

    async def offered(self) -> list[Version]:
        """Every version of the lineage of the base model in use, the base itself first."""
        return [v for v in await self._store.updates.versions() if v.base_fingerprint == self._base_fingerprint]

    async def ensure_resident(self, version: Version) -> None:
        """Load a version unless it is loaded; as the most recently used one."""
        if version.adapter_path is None:
            return
        if version.number not in self._resident:
            async with self._loading:
                await self._load(version)
        else:
            self._resident[version.number] = self._resident.pop(version.number)

    async def flip(self, version: Version) -> None:
        """Make a version live for all requests admitted from now on.

        The one shielded section: once the adapter is loaded nothing may come between, and the pointer is set without
        waiting. The version before drains and is unloaded by `unload_drained`.
        """
        await asyncio.shield(self._flip(version))

    async def unload_drained(self) -> None:
        """Unload, for ever, versions that nothing holds: retired ones at once, pinned ones beyond a few."""
        while True:
            await self._released.wait()
            self._released.clear()
            for number in self._unloadable():
                await self._unload(number)

    async def _flip(self, version: Version) -> None:
        try:
            await self.ensure_resident(version)
        except EngineUnavailable:
            log.warning("flipped while the engine is away; it is loaded at its return", version=version.name)
        before, self.live = self.live, version
        if before.number != version.number:
            self._retired.add(before.number)
        self._released.set()
        log.info("policy flipped", live=version.name, before=before.name)

    async def _load(self, version: Version) -> None:
        """With the lock held."""
        if version.adapter_path is None or version.number in self._resident:
            return
        await self._engine.load_adapter(engine_name(version), str(self._data_dir / version.adapter_path))
        self._resident[version.number] = version
        self._retired.discard(version.number)

    async def _refusal(self, version: Version) -> str | None:
        """Why the engine will not load a version; None once it has."""
        try:
            await self._load(version)
        except AdapterRejected as rejected:
            return str(rejected)
        return None

    async def _unload(self, number: int) -> None:
        async with self._loading:
            if number not in self._unloadable():
                return
            version = self._resident.pop(number)
            self._retired.discard(number)
            await self._engine.unload_adapter(engine_name(version))
            log.info("policy unloaded", version=version.name)

    def _unloadable(self) -> list[int]:
        """Oldest use first."""
        idle = [n for n in self._resident if n != self.live.number and not self._holds[n]]
        kept = [n for n in idle if n not in self._retired][-_MAX_IDLE:]
        return [n for n in idle if n not in kept]

    async def _fall_back(self, version: Version, reason: str) -> Version:
        """What to serve instead of a version that the engine refuses: its parent, else the base without adapter."""
        log.error("live version cannot be loaded", version=version.name, reason=reason)
        parents = [other for other in await self.offered() if other.number == version.parent]
        return parents[0] if parents else await self.resolve(BASE)


def engine_name(version: Version) -> str:
    """What the engine calls a version."""
    return BASE if version.adapter_path is None else version.name


async def find_live(store: Store, base_fingerprint: str, *, now: datetime) -> Version:
    """The newest version of a base model's lineage; one that was never seen opens a lineage, and numbers go on."""
    live = await store.updates.live(base_fingerprint)
    if live is not None:
        return live
    numbers = [version.number for version in await store.updates.versions()]
    base = Version(
        number=max(numbers, default=-1) + 1,
        parent=None,
        origin=VersionOrigin.BASE,
        base_fingerprint=base_fingerprint,
        created_at=now,
        note="the base model, no adapter",
    )
    await store.updates.add_version(base)
    return base
