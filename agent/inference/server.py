"""The engine child: `python -m agent.inference.server --model-dir D --socket S`.

One process, two threads: this file's event loop speaks HTTP on a Unix socket, the engine's thread computes. The
socket appears once the model is mapped, so a client that can connect can be served. Knows no tokenizer, no
principals and not which version is live.
"""

import argparse
import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from agent.inference import wire
from agent.inference.engine import Engine
from agent.inference.model import DecoderModel
from agent.inference.scheduler import Limits
from agent.inference.sequence import SequenceEvent
from agent.inference.service import BASE, CompletionService, RequestRefusedError, UnknownModelError
from memory.child import PARENT_PIPE_FD, die_with_parent
from memory.completions import AdapterRejected
from memory.records import new_id
from memory.states import FinishReason

_MAX_BODY_BYTES = 16 * 1024 * 1024
_SERVICE = web.AppKey("service", CompletionService)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AdapterPayload(BaseModel):
    """Body of the two adapter verbs; only loading needs a path."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lora_name: str
    lora_path: str = ""


def build_app(service: CompletionService) -> web.Application:
    app = web.Application(middlewares=[_errors_as_json], client_max_size=_MAX_BODY_BYTES)
    app[_SERVICE] = service
    app.router.add_post("/v1/completions", _completions)
    app.router.add_post("/v1/load_lora_adapter", _load_adapter)
    app.router.add_post("/v1/unload_lora_adapter", _unload_adapter)
    app.router.add_get("/v1/models", _models)
    app.router.add_get("/health", _health)
    return app


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Expected refusals become vLLM's error object; the rest stays a 500 with its traceback in the log."""
    try:
        return await handler(request)
    except UnknownModelError as error:
        return _error(404, "NotFoundError", str(error))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return _error(400, "BadRequestError", f"{where}: {first['msg']}", param=where)
    except (RequestRefusedError, AdapterRejected) as error:
        return _error(400, "BadRequestError", str(error))


async def _completions(request: web.Request) -> web.StreamResponse:
    payload = wire.CompletionPayload.model_validate_json(await request.read())
    respond = _stream if payload.stream else _whole
    return await respond(request, payload)


async def _whole(request: web.Request, payload: wire.CompletionPayload) -> web.StreamResponse:
    async with request.app[_SERVICE].events(payload) as events:
        collected = [event async for event in events]
    choice = _choice(payload, collected)
    body = {**_envelope(payload.model), "choices": [choice], "usage": _usage(payload, len(choice["token_ids"]))}
    return web.json_response(body)


async def _stream(request: web.Request, payload: wire.CompletionPayload) -> web.StreamResponse:
    envelope = _envelope(payload.model)
    async with request.app[_SERVICE].events(payload) as events:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        async for event in events:
            body = {**envelope, "choices": [_choice(payload, [event])]}
            await response.write(b"data: " + json.dumps(body).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
    return response


async def _load_adapter(request: web.Request) -> web.Response:
    payload = AdapterPayload.model_validate_json(await request.read())
    await request.app[_SERVICE].load_adapter(payload.lora_name, payload.lora_path)
    return web.Response(text=f"Success: LoRA adapter '{payload.lora_name}' added successfully.")


async def _unload_adapter(request: web.Request) -> web.Response:
    payload = AdapterPayload.model_validate_json(await request.read())
    request.app[_SERVICE].unload_adapter(payload.lora_name)
    return web.Response(text=f"Success: LoRA adapter '{payload.lora_name}' removed successfully.")


async def _models(request: web.Request) -> web.Response:
    service = request.app[_SERVICE]
    cards = [
        {
            "id": name,
            "object": "model",
            "owned_by": "journeyman",
            "parent": None if name == BASE else BASE,
            "max_model_len": service.max_sequence_tokens,
        }
        for name in service.names
    ]
    return web.json_response({"object": "list", "data": cards})


async def _health(request: web.Request) -> web.Response:
    running, waiting = request.app[_SERVICE].num_sequences
    return web.json_response({"status": "ok", "num_running": running, "num_waiting": waiting})


def _envelope(model: str) -> wire.Json:
    return {"id": new_id("cmpl"), "object": "text_completion", "created": int(time.time()), "model": model}


def _choice(payload: wire.CompletionPayload, events: list[SequenceEvent]) -> wire.Json:
    sampled = [(e.token_id, e.logprob, e.top) for e in events if e.token_id is not None and e.logprob is not None]
    token_ids = [token_id for token_id, _, _ in sampled]
    logprobs = None
    if payload.logprobs is not None:
        logprobs = wire.logprobs_json(token_ids, [value for _, value, _ in sampled], [top for _, _, top in sampled])
    score = next((event.prompt for event in events if event.prompt is not None), None)
    finish_reason = events[-1].finish_reason
    return wire.choice_json(
        token_ids,
        logprobs,
        prompt_logprobs=None if score is None else wire.prompt_logprobs_json(payload.prompt, score),
        finish_reason=finish_reason,
        stop_reason=token_ids[-1] if finish_reason is FinishReason.STOP else None,
    )


def _usage(payload: wire.CompletionPayload, num_completion: int) -> wire.Json:
    num_prompt = len(payload.prompt)
    return {
        "prompt_tokens": num_prompt,
        "completion_tokens": num_completion,
        "total_tokens": num_prompt + num_completion,
    }


def _error(status: int, kind: str, message: str, *, param: str | None = None) -> web.Response:
    body = {"error": {"message": message, "type": kind, "param": param, "code": status}}
    return web.json_response(body, status=status)


async def serve(service: CompletionService, socket_path: str) -> None:
    """Serve until SIGTERM. Leaving cancels what is in flight: draining is the daemon's business."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    runner = web.AppRunner(build_app(service), handler_cancellation=True, shutdown_timeout=1.0, access_log=None)
    async with asyncio.TaskGroup() as tasks:
        computing = tasks.create_task(service.run())
        await runner.setup()
        try:
            await web.UnixSite(runner, socket_path).start()
            await stop.wait()
        finally:
            await runner.cleanup()
            computing.cancel()


def main() -> None:
    options = _parse_options()
    if PARENT_PIPE_FD in os.environ:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the daemon's to answer; it stops us in order
    die_with_parent()
    model = DecoderModel.load(options.model_dir)
    limits = Limits(
        num_slots=options.max_batch,
        kv_tokens=options.kv_tokens,
        max_sequence_tokens=min(options.kv_tokens, model.architecture.max_positions),
    )
    service = CompletionService(Engine(model, limits), model.architecture, base_fingerprint=options.base_fingerprint)
    asyncio.run(serve(service, options.socket))


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve one base model and its adapters on a Unix socket.")
    parser.add_argument("--model-dir", type=Path, required=True, help="config.json and model.safetensors")
    parser.add_argument("--socket", required=True, help="path of the Unix socket")
    parser.add_argument("--max-batch", type=int, default=16, help="sequences that run at once")
    parser.add_argument("--kv-tokens", type=int, default=16384, help="tokens all running sequences may hold")
    parser.add_argument("--base-fingerprint", help="refuse adapters whose metadata names another base")
    return parser.parse_args()


if __name__ == "__main__":
    main()
