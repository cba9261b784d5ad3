"""The engine as the rest of the system sees it: vLLM's dialect over a Unix socket or a URL. Never imports torch.

Closing a stream, or cancelling a call, closes its connection, and that is what aborts the sequence in the engine.
"""

import json
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self

import aiohttp

from agent.inference import wire
from memory.completions import (
    AdapterRejected,
    Completion,
    CompletionChunk,
    CompletionRequest,
    EngineUnavailable,
    InferenceError,
    PromptScore,
)
from memory.states import FinishReason

_CONNECT_S = 5.0
_FINISH_REASONS = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "abort": FinishReason.ABORT,
    "error": FinishReason.ERROR,
}


class EngineClient:
    """Implements memory.completions.InferenceClient. Connects on first use; close with `aclose` or `async with`."""

    def __init__(self, base_url: str = "http://engine", *, socket_path: str | None = None) -> None:
        self._base_url = base_url.rstrip("/")
        self._socket_path = socket_path
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def stream(self, request: CompletionRequest) -> AsyncGenerator[CompletionChunk, None]:
        """Sample; closing the iterator aborts the request in the engine."""
        body = wire.request_body(request, stream=True)
        last: CompletionChunk | None = None
        try:
            async with self._post("/v1/completions", body) as response:
                await _raise_for_status(response, InferenceError)
                async for line in response.content:
                    data = line.removeprefix(b"data:").strip()
                    if not data or data == b"[DONE]":
                        continue
                    chunk = _read_chunk(json.loads(data), request.top_logprobs)
                    if chunk.finish_reason is None:
                        yield chunk
                    else:
                        last = chunk  # given once all is read: a caller who stops there leaves the connection usable
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError) as error:
            raise EngineUnavailable(f"the engine is gone: {error!r}") from error
        if last is None:
            raise EngineUnavailable("the engine closed the stream before its end")
        yield last

    async def complete(self, request: CompletionRequest) -> Completion:
        """Sample to the end."""
        answer = await self._call("/v1/completions", wire.request_body(request, stream=False))
        chunk = _read_chunk(answer, 0)
        if chunk.finish_reason is None:
            raise InferenceError("the engine gave no finish reason")
        return Completion(token_ids=chunk.token_ids, logprobs=chunk.logprobs, finish_reason=chunk.finish_reason)

    async def score(self, model: str, token_ids: tuple[int, ...], *, top: int = 0, priority: int = 20) -> PromptScore:
        """`prompt_logprobs` of `token_ids` under `model`."""
        answer = await self._call("/v1/completions", wire.score_body(model, token_ids, top=top, priority=priority))
        rows = answer["choices"][0]["prompt_logprobs"][1:]
        pairs = [wire.read_prompt_row(row, token, top) for row, token in zip(rows, token_ids[1:], strict=True)]
        return PromptScore(
            logprobs=tuple(logprob for logprob, _ in pairs),
            top=tuple(alternatives for _, alternatives in pairs) if top else (),
        )

    async def load_adapter(self, name: str, path: str) -> None:
        """Make `name` resident from a PEFT directory. Raises AdapterRejected."""
        body: wire.Json = {"lora_name": name, "lora_path": path}
        await self._call("/v1/load_lora_adapter", body, refusal=AdapterRejected)

    async def unload_adapter(self, name: str) -> None:
        """Forget `name` once nothing in flight uses it."""
        await self._call("/v1/unload_lora_adapter", {"lora_name": name})

    async def list_models(self) -> tuple[str, ...]:
        """Names that are resident, `base` first."""
        answer = await self._call("/v1/models")
        return tuple(card["id"] for card in answer["data"])

    async def health(self) -> wire.Json:
        """Whatever /health says; raises EngineUnavailable while it cannot be reached."""
        return await self._call("/health")

    async def _call(
        self,
        path: str,
        body: wire.Json | None = None,
        *,
        refusal: type[InferenceError] = InferenceError,
    ) -> wire.Json:
        try:
            async with self._get(path) if body is None else self._post(path, body) as response:
                await _raise_for_status(response, refusal)
                is_json = response.content_type == "application/json"  # vLLM answers some verbs with a word or nothing
                answer: wire.Json = await response.json() if is_json else {}
                return answer
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError) as error:
            raise EngineUnavailable(f"the engine cannot be reached: {error!r}") from error

    def _get(self, path: str) -> "aiohttp.client._RequestContextManager":
        return self._connected().get(self._base_url + path)

    def _post(self, path: str, body: wire.Json) -> "aiohttp.client._RequestContextManager":
        return self._connected().post(self._base_url + path, json=body)

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.UnixConnector(self._socket_path, limit=0) if self._socket_path else None
            timeout = aiohttp.ClientTimeout(total=None, connect=_CONNECT_S)
            self._session = aiohttp.ClientSession(
                connector=connector or aiohttp.TCPConnector(limit=0), timeout=timeout, read_bufsize=2**20
            )
        return self._session


async def _raise_for_status(response: aiohttp.ClientResponse, refusal: type[InferenceError]) -> None:
    if response.status == 200:
        return
    text = await response.text()
    try:
        message = str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = text[:500]
    kind = refusal if response.status < 500 else InferenceError
    raise kind(f"{message} (HTTP {response.status})")


def _read_chunk(answer: wire.Json, top: int) -> CompletionChunk:
    choice = answer["choices"][0]
    logprobs = choice["logprobs"]
    reason = choice["finish_reason"]
    return CompletionChunk(
        token_ids=tuple(choice["token_ids"]),
        logprobs=tuple(logprobs["token_logprobs"]),
        top_logprobs=wire.read_top_logprobs(logprobs["top_logprobs"], top) if top else (),
        finish_reason=None if reason is None else _FINISH_REASONS[reason],
    )
