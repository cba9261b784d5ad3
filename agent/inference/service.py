"""Completions by model name, between HTTP and the engine's thread. Knows names and payloads, no sockets.

Model names live here and nowhere below: `base`, and each adapter under the name it was loaded with. A sequence holds
the adapter object it started with, so forgetting a name never disturbs what is in flight.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.inference.architecture import Architecture
from agent.inference.engine import Engine
from agent.inference.engine_thread import EngineThread
from agent.inference.lora import Adapter, load_adapter
from agent.inference.sequence import Sequence, SequenceEvent
from agent.inference.wire import CompletionPayload
from memory.completions import AdapterRejected
from memory.records import new_id

BASE = "base"


class UnknownModelError(LookupError):
    """No model of that name is resident."""


class RequestRefusedError(ValueError):
    """The request can never be served as it stands."""


class CompletionService:
    """Lives on the event loop that `run` is awaited on."""

    def __init__(self, engine: Engine, architecture: Architecture, *, base_fingerprint: str | None = None) -> None:
        self._engine = engine
        self._architecture = architecture
        self._base_fingerprint = base_fingerprint
        self._thread = EngineThread(engine, self._deliver)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._adapters: dict[str, Adapter | None] = {BASE: None}
        self._loading: set[str] = set()
        self._events: dict[str, asyncio.Queue[SequenceEvent]] = {}

    @property
    def max_sequence_tokens(self) -> int:
        return self._engine.limits.max_sequence_tokens

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._adapters)

    @property
    def num_sequences(self) -> tuple[int, int]:
        """(running, waiting) sequences."""
        return self._engine.num_running, self._engine.num_waiting

    async def run(self) -> None:
        """Compute until cancelled; an engine failure propagates."""
        self._loop = asyncio.get_running_loop()
        work = asyncio.ensure_future(asyncio.to_thread(self._thread.run))
        try:
            await asyncio.shield(work)
        finally:
            self._thread.stop()
            await work

    @asynccontextmanager
    async def events(self, payload: CompletionPayload) -> AsyncIterator[AsyncIterator[SequenceEvent]]:
        """The events of one request up to its finish reason; leaving early aborts it."""
        sequence = self._sequence(payload)
        queue: asyncio.Queue[SequenceEvent] = asyncio.Queue()
        self._events[sequence.id] = queue
        self._thread.submit(sequence)
        try:
            yield _until_finished(queue)
        finally:
            del self._events[sequence.id]
            self._thread.abort(sequence.id)

    async def load_adapter(self, name: str, path: str) -> None:
        """Read and check off the loop, then name it. Raises AdapterRejected."""
        if name in self._adapters or name in self._loading:
            raise AdapterRejected(f"the name {name} is taken; unload it first")
        self._loading.add(name)
        try:
            self._adapters[name] = await asyncio.to_thread(
                load_adapter, Path(path), self._architecture, base_fingerprint=self._base_fingerprint
            )
        finally:
            self._loading.discard(name)

    def unload_adapter(self, name: str) -> None:
        """Refuse new requests for `name` from now on; its memory goes with the last sequence that uses it."""
        if name == BASE or name not in self._adapters:
            raise UnknownModelError(f"no adapter named {name} is resident")
        del self._adapters[name]

    def _sequence(self, payload: CompletionPayload) -> Sequence:
        if payload.model not in self._adapters:
            raise UnknownModelError(f"no model named {payload.model} is resident")
        sequence = Sequence(
            id=new_id("cmpl"),
            prompt=tuple(payload.prompt),
            sampling=payload.sampling,
            adapter=self._adapters[payload.model],
            stop_token_ids=frozenset(payload.stop_token_ids or ()),
            num_top_logprobs=payload.logprobs or 0,
            num_prompt_logprobs=payload.prompt_logprobs,
            priority=payload.priority,
        )
        self._refuse_impossible(sequence)
        return sequence

    def _refuse_impossible(self, sequence: Sequence) -> None:
        limit, vocabulary = self.max_sequence_tokens, self._architecture.vocab_size
        if sequence.num_reserved > limit:
            raise RequestRefusedError(
                f"prompt ({len(sequence.prompt)} tokens) and max_tokens ({sequence.sampling.max_tokens}) exceed the"
                f" {limit} tokens a sequence may hold"
            )
        if not sequence.is_sampling and sequence.num_prompt_logprobs is None:
            raise RequestRefusedError("max_tokens is 0 and prompt_logprobs is not asked for: nothing to do")
        biased = [token_id for token_id, _ in sequence.sampling.logit_bias]
        if max((*sequence.prompt, *biased)) >= vocabulary or min(biased, default=0) < 0:
            raise RequestRefusedError(f"a token id lies outside the vocabulary of {vocabulary}")

    def _deliver(self, events: list[SequenceEvent]) -> None:
        """Called on the engine's thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._sort_out, events)

    def _sort_out(self, events: list[SequenceEvent]) -> None:
        for event in events:
            queue = self._events.get(event.sequence_id)
            if queue is not None:
                queue.put_nowait(event)


async def _until_finished(queue: asyncio.Queue[SequenceEvent]) -> AsyncIterator[SequenceEvent]:
    while True:
        event = await queue.get()
        yield event
        if event.finish_reason is not None:
            return
