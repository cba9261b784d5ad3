"""The engine as a process: it comes up, answers, and ends when told or when orphaned."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.inference.client import EngineClient
from memory.child import PARENT_PIPE_FD
from memory.completions import CompletionRequest, EngineUnavailable
from memory.records import SamplingParams

REQUEST = CompletionRequest(
    model="base", prompt_token_ids=(5, 6, 7), sampling=SamplingParams(temperature=0.0, max_tokens=8)
)


@asynccontextmanager
async def engine_child(model_dir: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, EngineClient, int]]:
    """(process, connected client, the write end of the pipe that says the parent lives)."""
    read_end, write_end = os.pipe()
    with TemporaryDirectory() as directory:
        socket_path = f"{directory}/engine.sock"
        options = ("--model-dir", str(model_dir), "--socket", socket_path, "--kv-tokens", "1024")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "agent.inference.server", *options),
            env={**os.environ, PARENT_PIPE_FD: str(read_end)},
            pass_fds=(read_end,),
        )
        os.close(read_end)
        async with EngineClient(socket_path=socket_path) as client:
            try:
                await until_up(client, process)
                yield process, client, write_end
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()


async def until_up(client: EngineClient, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(60):
        while process.returncode is None:
            try:
                await client.health()
            except EngineUnavailable:
                await asyncio.sleep(0.05)
            else:
                return
    raise AssertionError("the engine ended before it was up")


async def test_sigterm_ends_it_even_with_work_in_flight(tiny_model: Path) -> None:
    """SIGTERM ends the child cleanly within moments, and its clients learn that it is gone."""
    async with engine_child(tiny_model) as (process, client, write_end):
        assert len((await client.complete(REQUEST)).token_ids) == 8
        long = CompletionRequest(
            model="base", prompt_token_ids=(5, 6), sampling=SamplingParams(temperature=0.0, max_tokens=1000)
        )
        call = asyncio.ensure_future(client.complete(long))
        await asyncio.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            assert await process.wait() == 0
            (outcome,) = await asyncio.gather(call, return_exceptions=True)
        os.close(write_end)
        assert isinstance(outcome, EngineUnavailable) or not isinstance(outcome, BaseException)


async def test_it_dies_with_its_parent(tiny_model: Path) -> None:
    """When the parent's end of the pipe closes, whatever the reason, the child ends; Ctrl-C alone does not end it."""
    async with engine_child(tiny_model) as (process, client, write_end):
        process.send_signal(signal.SIGINT)
        assert len((await client.complete(REQUEST)).token_ids) == 8
        os.close(write_end)
        async with asyncio.timeout(20):
            assert await process.wait() == 70
