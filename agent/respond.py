"""How one chat is answered: find_session -> retrieve -> build_prompt -> generate -> remember.

Parsing and authentication come before, formatting after (agent/api). Once admitted, a turn is served by a task of its
own and always ends in the store, whatever becomes of the client. The last word goes out only after the row is durable.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from agent.generate import Generator
from agent.idempotency import KeyClaims
from agent.prompt import build_prompt
from agent.publishing import LivePolicy
from agent.replay import replay_turn
from agent.session import find_session
from agent.turn import Chat, Choice, Turn
from memory.recall import Recall, Recalled
from memory.records import Interaction, Timings, new_id
from memory.states import Cause, FinishReason, Outcome
from memory.store import Store
from memory.tokens import Tokenizer

log = structlog.get_logger(__name__)

AGENT = "agent"
"""The model name that adds the system prompt and recalled memory."""
_SEED_BITS = 48
"""Of a seed we choose: exact in a JSON number wherever it is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What answering needs."""

    store: Store
    tokenizer: Tokenizer
    policy: LivePolicy
    recall: Recall
    generator: Generator
    system_prompt: str
    context_length: int
    """Tokens of prompt and answer together that the engine can hold."""
    on_stored: Callable[[Sequence[Interaction]], None]
    """Told of every request that became durable."""
    now: Callable[[], datetime]


class Responder:
    """Answers chats; owns the turns in flight. Their tasks live in the task group that is passed in."""

    def __init__(self, parts: Parts, turns: asyncio.TaskGroup) -> None:
        self._parts = parts
        self._turns = turns
        self._claims = KeyClaims()
        self._in_flight: set[Turn] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._idle_since_s = time.monotonic()

    @property
    def num_in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def idle_s(self) -> float:
        """Seconds since the last turn ended; 0 while one is in flight."""
        return 0.0 if self._in_flight else time.monotonic() - self._idle_since_s

    async def respond(self, chat: Chat) -> Turn:
        """Admit a chat: the turn that comes back is being served. Raises UnknownModelError, ContextLengthError."""
        parts = self._parts
        async with AsyncExitStack() as held:
            if chat.idempotency_key is not None:
                await held.enter_async_context(self._claims.claim(chat.caller.principal, chat.idempotency_key))
                if (earlier := await replay_turn(parts.store, chat)) is not None:
                    return earlier
            served = await held.enter_async_context(parts.policy.hold(chat.model))
            session = await find_session(parts.store, chat.caller.principal, chat.messages, named=chat.session_name)
            recalled = await self._retrieve(chat, session.id)
            system_prompt = parts.system_prompt if chat.model == AGENT and parts.system_prompt else None
            prompt = build_prompt(
                parts.tokenizer,
                chat.messages,
                system_prompt=system_prompt,
                recalled=recalled.text if recalled else "",
                max_tokens=chat.sampling.max_tokens,
                context_length=parts.context_length,
            )
            turn = Turn(
                request_id=new_id("chatcmpl").replace("_", "-"),
                chat=chat,
                session=session,
                served=served,
                prompt=prompt,
                system_prompt=system_prompt,
                recalled_ids=recalled.ids if recalled else (),
                choices=new_choices(chat, prompt.max_tokens),
                created_at=parts.now(),
                admitted_at_s=time.monotonic(),
            )
            self._in_flight.add(turn)
            self._idle.clear()
            self._turns.create_task(self._serve(turn, held.pop_all()), name=turn.request_id)
        return turn

    async def idle(self) -> None:
        """Return once no turn is in flight."""
        await self._idle.wait()

    def abandon_all(self, reason: str) -> None:
        """End every turn in flight now; what there is gets stored."""
        for turn in tuple(self._in_flight):
            turn.abandon(Cause.INFRASTRUCTURE, reason)

    async def _retrieve(self, chat: Chat, session_id: str) -> Recalled | None:
        if chat.model != AGENT:
            return None
        return await self._parts.recall.retrieve(chat.caller.principal, chat.messages, exclude_session=session_id)

    async def _serve(self, turn: Turn, held: AsyncExitStack) -> None:
        async with held:
            try:
                # What goes wrong belongs to the request: it is raised where the client is answered, not here.
                [failure] = await asyncio.gather(self._sample_and_store(turn), return_exceptions=True)
                turn.close(failure)
            finally:
                self._in_flight.discard(turn)
                if not self._in_flight:
                    self._idle_since_s = time.monotonic()
                    self._idle.set()

    async def _sample_and_store(self, turn: Turn) -> None:
        await self._generate(turn)
        await self._remember(turn)

    async def _generate(self, turn: Turn) -> None:
        async with asyncio.TaskGroup() as sampling:
            for choice in turn.choices if turn.ended_by is None else ():
                turn.samplers.append(sampling.create_task(self._parts.generator.sample(turn, choice)))

    async def _remember(self, turn: Turn) -> None:
        rows = [to_interaction(turn, choice, completed_at=self._parts.now()) for choice in turn.choices]
        await self._parts.store.interactions.add(rows)
        self._parts.on_stored(rows)


def new_choices(chat: Chat, max_tokens: int) -> tuple[Choice, ...]:
    """Choices differ by seed alone: the request's seed plus the index."""
    return tuple(
        Choice(
            id=new_id("int"),
            index=index,
            sampling=replace(chat.sampling, seed=chat.sampling.seed + index, max_tokens=max_tokens),
        )
        for index in range(chat.num_choices)
    )


def new_seed() -> int:
    """For a request that names none."""
    return secrets.randbits(_SEED_BITS)


def to_interaction(turn: Turn, choice: Choice, *, completed_at: datetime) -> Interaction:
    """The row of one choice, as it was served."""
    outcome, cause, error = _judge_end(turn, choice)
    chat = turn.chat
    return Interaction(
        id=choice.id,
        request_id=turn.request_id,
        choice_index=choice.index,
        principal=chat.caller.principal,
        key_id=chat.caller.key_id,
        session_id=turn.session.id,
        parent_id=turn.session.parent_id,
        created_at=turn.created_at,
        completed_at=completed_at,
        model=chat.model,
        messages=chat.messages,
        system_prompt=turn.system_prompt,
        recalled_ids=turn.recalled_ids,
        prompt_token_ids=turn.prompt.token_ids,
        token_ids=tuple(token.token_id for token in choice.tokens),
        logprobs=tuple(token.logprob for token in choice.tokens),
        num_unsent=choice.num_unsent,
        text=choice.text,
        sampling=choice.sampling,
        policy_version=turn.served.version.number,
        base_fingerprint=turn.served.version.base_fingerprint,
        finish_reason=choice.finish_reason or FinishReason.ABORT,
        outcome=outcome,
        cause=cause,
        error=error,
        timings=Timings(ttft_s=choice.ttft_s, total_s=time.monotonic() - turn.admitted_at_s),
        idempotency_key=chat.idempotency_key if outcome is Outcome.OK else None,
        learn=chat.learn and chat.caller.learn,
    )


def _judge_end(turn: Turn, choice: Choice) -> tuple[Outcome, Cause, str | None]:
    """How it ended, who is answerable, and in which words. A client that left says nothing of the answer's worth."""
    if choice.error is not None:
        return Outcome.FAILED, Cause.INFRASTRUCTURE, str(choice.error)
    if choice.finish_reason is None and turn.ended_by is not None:
        cause, reason = turn.ended_by
        return Outcome.UNKNOWN if cause is Cause.CLIENT else Outcome.FAILED, cause, reason
    return Outcome.OK, Cause.NONE, None
