"""The wire: a real server on a real Unix socket, spoken to by the real client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import pytest
from aiohttp import web

from agent.inference.client import EngineClient
from agent.inference.engine import Engine
from agent.inference.model import DecoderModel
from agent.inference.scheduler import Limits
from agent.inference.server import build_app
from agent.inference.service import CompletionService
from memory.completions import AdapterRejected, CompletionRequest, EngineUnavailable, InferenceError
from memory.records import SamplingParams
from memory.states import FinishReason

PROMPT = tuple(range(5, 25))
LIMITS = Limits(num_slots=8, kv_tokens=4000, max_sequence_tokens=2000)


@pytest.fixture
async def socket_path(model: DecoderModel) -> AsyncIterator[str]:
    """A serving engine; pytest's own directories are too deep for a Unix socket's 107 bytes."""
    service = CompletionService(Engine(model, LIMITS), model.architecture)
    runner = web.AppRunner(build_app(service), handler_cancellation=True)
    with TemporaryDirectory() as directory:
        async with asyncio.TaskGroup() as tasks:
            computing = tasks.create_task(service.run())
            await runner.setup()
            await web.UnixSite(runner, f"{directory}/engine.sock").start()
            yield f"{directory}/engine.sock"
            await runner.cleanup()
            computing.cancel()


@pytest.fixture
async def client(socket_path: str) -> AsyncIterator[EngineClient]:
    async with EngineClient(socket_path=socket_path) as connected:
        yield connected


def request(model: str = "base", *, max_tokens: int = 16) -> CompletionRequest:
    sampling = SamplingParams(temperature=1.0, seed=3, max_tokens=max_tokens)
    return CompletionRequest(model=model, prompt_token_ids=PROMPT, sampling=sampling, top_logprobs=2)


async def until_idle(client: EngineClient) -> None:
    """Wait until nothing runs in the engine."""
    async with asyncio.timeout(20):
        while (health := await client.health())["num_running"] + health["num_waiting"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_streamed_equals_whole(client: EngineClient) -> None:
    """A stream's chunks, put together, are the completion."""
    whole = await client.complete(request())
    chunks = [chunk async for chunk in client.stream(request())]
    assert tuple(token for chunk in chunks for token in chunk.token_ids) == whole.token_ids
    assert tuple(value for chunk in chunks for value in chunk.logprobs) == pytest.approx(whole.logprobs, abs=1e-4)
    assert [chunk.finish_reason for chunk in chunks[-2:]] == [None, FinishReason.LENGTH]
    tops = [top for chunk in chunks for top in chunk.top_logprobs]
    assert {len(top) for top in tops} == {2}
    assert all(first[1] >= second[1] for first, second in tops)


async def test_scores_match_sampled_logprobs(client: EngineClient) -> None:
    """`score` of prompt and completion gives the logprobs under which the completion was sampled."""
    completion = await client.complete(request())
    score = await client.score("base", PROMPT + completion.token_ids, top=1)
    assert score.logprobs[len(PROMPT) - 1 :] == pytest.approx(completion.logprobs, abs=1e-4)
    assert len(score.top) == len(score.logprobs)


async def test_adapters_come_and_go_by_name(client: EngineClient, adapter_dirs: tuple[Path, Path]) -> None:
    """Versions are resident side by side, answer differently, and are gone once unloaded."""
    for number, directory in enumerate(adapter_dirs, start=1):
        await client.load_adapter(f"policy@v{number}", str(directory))
    assert await client.list_models() == ("base", "policy@v1", "policy@v2")
    names = ("base", "policy@v1", "policy@v2")
    answers = await asyncio.gather(*(client.complete(request(name)) for name in names))
    assert len({answer.token_ids for answer in answers}) == 3
    with pytest.raises(AdapterRejected, match="taken"):
        await client.load_adapter("policy@v1", str(adapter_dirs[0]))
    await client.unload_adapter("policy@v1")
    with pytest.raises(InferenceError, match="policy@v1"):
        await client.complete(request("policy@v1"))
    with pytest.raises(InferenceError, match="404"):
        await client.unload_adapter("policy@v1")
    assert (await client.complete(request("policy@v2"))).token_ids == answers[2].token_ids


async def test_a_stream_survives_the_unloading_of_its_version(
    client: EngineClient, adapter_dirs: tuple[Path, Path]
) -> None:
    """What is in flight ends on the version it began with, even if the name is given to another adapter."""
    await client.load_adapter("candidate", str(adapter_dirs[0]))
    expected = await client.complete(request("candidate", max_tokens=60))
    tokens: list[int] = []
    async with aclosing(client.stream(request("candidate", max_tokens=60))) as chunks:
        async for chunk in chunks:
            if not tokens:
                await client.unload_adapter("candidate")
                await client.load_adapter("candidate", str(adapter_dirs[1]))
            tokens.extend(chunk.token_ids)
    assert tuple(tokens) == expected.token_ids


async def test_a_rejected_adapter_gives_its_reason_and_no_name(client: EngineClient, tmp_path: Path) -> None:
    """A directory that is refused leaves nothing behind."""
    with pytest.raises(AdapterRejected, match="does not exist"):
        await client.load_adapter("candidate", str(tmp_path))
    assert await client.list_models() == ("base",)


async def test_closing_a_stream_aborts_in_the_engine(client: EngineClient) -> None:
    """A client that leaves frees its slot long before its tokens would have run out."""
    async with aclosing(client.stream(request(max_tokens=1900))) as chunks:
        async for _ in chunks:
            break
    await until_idle(client)


async def test_cancelling_a_call_aborts_in_the_engine(client: EngineClient) -> None:
    """The same for a call that is not streamed."""
    call = asyncio.ensure_future(client.complete(request(max_tokens=1900)))
    await asyncio.sleep(0.1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until_idle(client)


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"model": "nobody"}, 404, "nobody"),
        ({"prompt": list(range(300)) * 7}, 400, "exceed"),
        ({"prompt": []}, 400, "prompt"),
        ({"prompt": "text"}, 400, "prompt"),
        ({"prompt": [99999]}, 400, "vocabulary"),
        ({"logit_bias": {"99999": 1}}, 400, "vocabulary"),
        ({"max_tokens": 0}, 400, "nothing to do"),
        ({"temperature": -1}, 400, "temperature"),
        ({"n": 2}, 400, "n"),
        ({"unheard_of": 1}, 400, "unheard_of"),
    ],
)
async def test_refusals_have_a_status_and_a_reason(
    socket_path: str, change: dict[str, object], status: int, words: str
) -> None:
    """A request that cannot be served is refused at once, in the error shape of the dialect."""
    body = {"model": "base", "prompt": [5, 6, 7], "max_tokens": 4, **change}
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(socket_path)) as session,
        session.post("http://engine/v1/completions", json=body) as response,
    ):
        assert response.status == status
        error = (await response.json())["error"]
        assert error["code"] == status
        assert words in error["message"]


async def test_the_dialect_of_a_whole_answer(socket_path: str) -> None:
    """The keys that clients of the dialect read are there, and say what they should."""
    body = {
        "model": "base",
        "prompt": [5, 6, 7],
        "max_tokens": 2,
        "temperature": 0,
        "logprobs": 1,
        "prompt_logprobs": 0,
    }
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(socket_path)) as session,
        session.post("http://engine/v1/completions", json=body) as response,
    ):
        answer = await response.json()
    choice = answer["choices"][0]
    assert answer["object"] == "text_completion"
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert choice["logprobs"]["tokens"] == [f"token_id:{token}" for token in choice["token_ids"]]
    assert all(
        name in top for name, top in zip(choice["logprobs"]["tokens"], choice["logprobs"]["top_logprobs"], strict=True)
    )
    assert choice["prompt_logprobs"][0] is None
    assert [list(row) for row in choice["prompt_logprobs"][1:]] == [["6"], ["7"]]
    assert choice["finish_reason"] == "length"


async def test_an_absent_engine_is_unavailable(tmp_path: Path) -> None:
    """Nobody listening is EngineUnavailable, not a hang and not another error."""
    async with EngineClient(socket_path=str(tmp_path / "no.sock")) as client:
        with pytest.raises(EngineUnavailable):
            await client.list_models()
        with pytest.raises(EngineUnavailable):
            await anext(client.stream(request()))
