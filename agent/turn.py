"""One chat request on its way through the daemon: what was asked, each choice as it grows, and what the client may see.

The task that serves a turn and the handler that answers the client meet here. A turn is never cut short by its handler
going away: `abandon` ends it early, and what was sampled is still stored.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime

from agent.prompt import Prompt
from agent.publishing import Served
from agent.session import Session
from memory.completions import InferenceError
from memory.records import Message, SamplingParams
from memory.states import Cause, FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who speaks, as the edge established it."""

    principal: str
    key_id: str | None = None
    learn: bool = True
    is_operator: bool = False
    """Came over the admin socket: may speak for everyone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A chat request, parsed and within bounds."""

    caller: Caller
    model: str
    messages: tuple[Message, ...]
    sampling: SamplingParams
    num_choices: int = 1
    top_logprobs: int = 0
    learn: bool = True
    session_name: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """One sampled token with its raw logprob and the alternatives that were asked for."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Text of one choice that may be sent, and the tokens that have come since the last one."""

    choice_index: int
    text: str
    tokens: tuple[TokenLogprob, ...] = ()


@dataclass(slots=True, kw_only=True)
class Choice:
    """One completion as it grows."""

    id: str
    """The interaction's, fixed at admission."""
    index: int
    sampling: SamplingParams
    tokens: list[TokenLogprob] = field(default_factory=list)
    text: str = ""
    """What may be sent: never a stop string, never part of a character."""
    num_unsent: int = 0
    finish_reason: FinishReason | None = None
    cause: Cause = Cause.NONE
    error: InferenceError | None = None
    ttft_s: float | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Turn:
    """A chat request that was admitted."""

    request_id: str
    chat: Chat
    session: Session
    served: Served
    prompt: Prompt
    system_prompt: str | None
    recalled_ids: tuple[str, ...]
    choices: tuple[Choice, ...]
    created_at: datetime
    admitted_at_s: float
    """On the loop's monotonic clock."""
    samplers: list[asyncio.Task[None]] = field(default_factory=list)
    """One task a choice, owned by the task that serves the turn."""
    ended_by: tuple[Cause, str] | None = None
    """Why it was ended early."""
    failure: BaseException | None = None
    """What went wrong with the turn as a whole; raised where the client is answered."""
    stored: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once nothing more will happen: the rows are durable, or `failure` says why not."""
    _deltas: asyncio.Queue[Delta | None] = field(default_factory=asyncio.Queue)

    def send(self, delta: Delta | None) -> None:
        """Let the client see a delta. None: there is nothing to see yet."""
        if delta is None:
            return
        self.choices[delta.choice_index].text += delta.text
        self._deltas.put_nowait(delta)

    def close(self, failure: BaseException | None = None) -> None:
        """No more deltas: whoever follows the turn goes on."""
        self.failure = failure
        self.stored.set()
        self._deltas.put_nowait(None)

    def abandon(self, cause: Cause, reason: str) -> None:
        """End sampling now; what there is will be stored. Does nothing to a turn whose sampling is over."""
        if self.ended_by is not None or all(choice.finish_reason for choice in self.choices):
            return
        self.ended_by = (cause, reason)
        for sampler in self.samplers:
            sampler.cancel()

    async def deltas(self, *, pause_s: float | None = None) -> AsyncIterator[Delta | None]:
        """Text as it may be sent, and None whenever nothing came for `pause_s`.

        Ends after the turn is durable; raises what kept it from being so.
        """
        while not (self.stored.is_set() and self._deltas.empty()):
            try:
                async with asyncio.timeout(pause_s):
                    delta = await self._deltas.get()
            except TimeoutError:
                yield None
                continue
            if delta is not None:
                yield delta
        if self.failure is not None:
            raise self.failure
