"""A whole daemon as an operator starts it: real processes, real sockets, a tiny policy and the real embedder."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import openai
import psutil
from openai.types.chat import ChatCompletionUserMessageParam

from agent.demo.daemon_process import RunningDaemon, running_daemon
from agent.sources import PreparedModel

PROMPT: ChatCompletionUserMessageParam = {"role": "user", "content": "What is a glacier?"}
MAX_TOKENS = 200
"""Enough that the answer is not over before its engine is killed."""
HEAVY_LIBRARIES = ("libtorch", "libc10", "sklearn")


@asynccontextmanager
async def a_daemon(data_dir: Path, policy: Path, embedder: PreparedModel) -> AsyncIterator[RunningDaemon]:
    settings = {
        "JOURNEYMAN_POLICY__MODEL": str(policy),
        "JOURNEYMAN_EMBEDDER__MODEL": str(embedder.directory),
        "JOURNEYMAN_ENGINE__THREADS": "1",
    }
    async with running_daemon(data_dir, settings=settings) as daemon:
        yield daemon


async def test_a_daemon_from_nothing_to_stop(
    tiny_model: Path, starter_embedder: PreparedModel, short_path: Path
) -> None:
    """It answers the openai client, survives the death of its engine mid-stream, reflects, and stops in order."""
    async with a_daemon(short_path / "data", tiny_model, starter_embedder) as daemon:
        client = openai.AsyncOpenAI(base_url=f"{daemon.url}/v1", api_key="unused", max_retries=0)
        async with client, aiohttp.ClientSession(base_url=daemon.url) as http:
            whole = await say(client, seed=1)
            assert await say(client, seed=1) == whole
            assert "".join([piece async for piece in streamed(client, seed=1)]) == whole
            assert await over_a_dead_engine(client, http, seed=1) == whole
            models = [model.id async for model in client.models.list()]
            assert models == ["agent", "policy", "base", "policy@v0"]
            assert_is_light(daemon.pid)
            status = await get(http, "/admin/status")
            assert status["counts"]["interactions"] == 4
            assert [child["restarts"] for child in status["children"] if child["name"] == "engine"] == [1]
            await reflects_and_updates(http)
        children = [process.pid for process in psutil.Process(daemon.pid).children()]
    assert not any(psutil.pid_exists(pid) for pid in children)
    assert not (daemon.data_dir / "daemon.json").exists()


async def say(client: openai.AsyncOpenAI, *, seed: int) -> str:
    answer = await client.chat.completions.create(
        model="policy", messages=[PROMPT], seed=seed, max_tokens=MAX_TOKENS, stream=False
    )
    assert answer.model == "policy@v0"
    return answer.choices[0].message.content or ""


async def streamed(client: openai.AsyncOpenAI, *, seed: int) -> AsyncIterator[str]:
    """The pieces of the same answer."""
    chunks = await client.chat.completions.create(
        model="policy", messages=[PROMPT], seed=seed, max_tokens=MAX_TOKENS, stream=True
    )
    async for chunk in chunks:
        yield chunk.choices[0].delta.content or ""


async def over_a_dead_engine(client: openai.AsyncOpenAI, http: aiohttp.ClientSession, *, seed: int) -> str:
    """The text of a stream in the middle of which the engine is killed."""
    pieces = []
    async for piece in streamed(client, seed=seed):
        pieces.append(piece)
        if len(pieces) == 5:
            status = await get(http, "/admin/status")
            [engine] = [child["pid"] for child in status["children"] if child["name"] == "engine"]
            os.kill(engine, signal.SIGKILL)
    return "".join(pieces)


async def reflects_and_updates(http: aiohttp.ClientSession) -> None:
    """Both passes come to an end; with so little to go on, nothing is published."""
    for verb, name, path in (("reflect", "pass_id", "passes"), ("update", "update_id", "updates")):
        async with http.post(f"/admin/{verb}") as response:
            run_id = (await response.json())[name]
        while (record := await get(http, f"/admin/{path}/{run_id}"))["status"] == "running":  # noqa: ASYNC110 - a poll
            await asyncio.sleep(0.1)
        assert record["status"] in ("done", "skipped"), record


async def get(http: aiohttp.ClientSession, path: str) -> dict[str, Any]:
    async with http.get(path) as response:
        answer: dict[str, Any] = await response.json()
        return answer


def assert_is_light(pid: int) -> None:
    """No tensor library is mapped into the daemon."""
    mapped = {Path(region.path).name for region in psutil.Process(pid).memory_maps()}
    assert not [name for name in mapped if name.startswith(HEAVY_LIBRARIES)]
