"""The key ring: who holds which key, what it may do, and how much of its allowance is left.

The store has the keys; this is what is in force now, so that no request waits for the database.
"""

import hashlib
import hmac
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from agent.tables import is_loopback
from memory.records import ApiKey, Interaction
from memory.states import Scope
from memory.store import Store

LOCAL = "local"
"""The principal of a request without a key, where keys are not asked for."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
DIGEST = re.compile(r"^[0-9a-f]{64}$")
MAX_LIMIT = 10**12
"""Of requests a minute and tokens a day."""
_DAY = timedelta(days=1)
_PREFIX = "jm-"


class KeyRefusedError(ValueError):
    """A key that cannot be made or revoked; the message is for the operator."""


@dataclass(slots=True)
class _Allowance:
    """What one key has used."""

    requests_left: float
    """Refilled evenly over the minute, never above the limit."""
    refilled_s: float
    sampled: deque[tuple[datetime, int]] = field(default_factory=deque)
    """When, and how many tokens; the oldest first."""


class KeyRing:
    """Keys in force. `load` first."""

    def __init__(
        self, store: Store, *, now: Callable[[], datetime], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._now = now
        self._monotonic_s = monotonic_s
        self._keys: dict[str, ApiKey] = {}
        self._allowances: dict[str, _Allowance] = {}

    async def load(self) -> None:
        self._keys = {key.id: key for key in await self._store.keys.every()}
        for key in self._keys.values():
            await self._open_allowance(key)

    @property
    def is_asked_for(self) -> bool:
        """True once a key was made, revoked or not: taking the last one away must not open the door."""
        return bool(self._keys)

    def require_for(self, host: str) -> None:
        """Raises KeyRefusedError where others than this machine could ask, and nobody has a key."""
        if not is_loopback(host) and all(key.revoked_at is not None for key in self._keys.values()):
            raise KeyRefusedError(f"{host} is not loopback, and there is no key yet: journeyman keys add NAME")

    @property
    def keys(self) -> tuple[ApiKey, ...]:
        """Revoked ones too, in the order they were made."""
        return tuple(self._keys.values())

    def find(self, token: str) -> ApiKey | None:
        """The key in force whose text this is. Every key is compared, in constant time, so that time tells nothing."""
        digest = digest_of(token)
        matches = [key for key in self._keys.values() if hmac.compare_digest(key.sha256, digest)]
        return next((key for key in matches if key.revoked_at is None), None)

    async def add(self, key: ApiKey) -> None:
        """In force at once. Raises KeyRefusedError where its name or text is taken."""
        if not await self._store.keys.add(key):
            raise KeyRefusedError(f"there is a key {key.id!r} already, or one with the same text; names stay taken")
        self._keys[key.id] = key
        await self._open_allowance(key)

    async def revoke(self, key_id: str) -> ApiKey:
        """Refused from the next request on. Raises KeyRefusedError where there is no such key in force."""
        if not await self._store.keys.revoke(key_id, self._now()):
            raise KeyRefusedError(f"there is no key {key_id!r} in force")
        await self.load()
        return self._keys[key_id]

    def take_request(self, key: ApiKey) -> float:
        """Count a request: 0, or the seconds after which the next one fits; then it does not count."""
        if not key.requests_per_minute:
            return 0.0
        allowance, per_s = self._allowances[key.id], key.requests_per_minute / 60
        now_s = self._monotonic_s()
        refilled = allowance.requests_left + (now_s - allowance.refilled_s) * per_s
        allowance.requests_left, allowance.refilled_s = min(refilled, key.requests_per_minute), now_s
        if allowance.requests_left < 1:
            return (1 - allowance.requests_left) / per_s
        allowance.requests_left -= 1
        return 0.0

    def quota_wait(self, key: ApiKey) -> float:
        """0 while tokens are left, else the seconds until the oldest of them are a day ago."""
        if not key.tokens_per_day:
            return 0.0
        sampled, now = self._allowances[key.id].sampled, self._now()
        while sampled and sampled[0][0] <= now - _DAY:
            sampled.popleft()
        left = key.tokens_per_day - sum(count for _, count in sampled)
        for moment, count in sampled:
            if left > 0:
                break
            left += count
            if left > 0:
                return (moment + _DAY - now).total_seconds()
        return 0.0

    def note_sampled(self, rows: Sequence[Interaction]) -> None:
        """Interactions became durable: their tokens count, where anybody counts them."""
        for row in rows:
            key = self._keys.get(row.key_id or "")
            if key is not None and key.tokens_per_day:
                self._allowances[key.id].sampled.append((row.created_at, len(row.token_ids)))

    async def _open_allowance(self, key: ApiKey) -> None:
        if key.id in self._allowances:
            return
        sampled = await self._store.keys.sampled(key.id, since=self._now() - _DAY) if key.tokens_per_day else []
        self._allowances[key.id] = _Allowance(key.requests_per_minute, self._monotonic_s(), deque(sorted(sampled)))


def make_key(
    name: str,
    *,
    scope: Scope,
    now: datetime,
    learn: bool = True,
    requests_per_minute: int = 0,
    tokens_per_day: int = 0,
    sha256: str | None = None,
) -> tuple[ApiKey, str | None]:
    """The record, and the key itself (None where only its digest was given). Raises KeyRefusedError."""
    if not _NAME.fullmatch(name) or name == LOCAL:
        raise KeyRefusedError(f"{name!r} cannot name a key: 1 to 64 letters, digits, '.', '_', '-', and not {LOCAL!r}")
    if sha256 is not None and not DIGEST.fullmatch(sha256):
        raise KeyRefusedError(f"{sha256[:80]!r} is no sha256: 64 digits from 0 to 9 and a to f")
    token = None if sha256 else _PREFIX + secrets.token_urlsafe(32)
    key = ApiKey(
        id=name,
        sha256=sha256 or digest_of(token or ""),
        scope=scope,
        learn=learn,
        requests_per_minute=requests_per_minute,
        tokens_per_day=tokens_per_day,
        created_at=now,
    )
    return key, token


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
