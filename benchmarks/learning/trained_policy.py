"""The running daemon's engine by its socket, for what has no name over HTTP: an adapter that was never published."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agent.config import load_settings, model_cache_dir
from agent.demo.daemon_process import RunningDaemon
from agent.demo.driver import CONCURRENCY, MAX_TOKENS, TEMPERATURE
from agent.demo.oracle import Answer
from agent.inference.client import EngineClient
from agent.sources import prepare
from memory.completions import CompletionRequest, InferenceClient
from memory.records import Message, SamplingParams
from memory.states import FinishReason
from memory.tokens import Tokenizer


def policy_model_dir(data_dir: Path) -> Path:
    """The prepared base model of a data directory's configuration."""
    settings = load_settings(data_dir)
    return prepare(settings.policy.source, model_cache_dir(settings), report=lambda *_: None).directory


def policy_tokenizer(data_dir: Path) -> Tokenizer:
    return Tokenizer.load(policy_model_dir(data_dir))


@asynccontextmanager
async def engine_of(daemon: RunningDaemon) -> AsyncIterator[InferenceClient]:
    announced = json.loads((daemon.data_dir / "daemon.json").read_text(encoding="utf-8"))
    async with EngineClient(socket_path=str(Path(announced["admin_socket"]).with_name("engine.sock"))) as engine:
        yield engine


async def sample_answers(
    engine: InferenceClient,
    tokenizer: Tokenizer,
    model: str,
    prompts: Sequence[str],
    *,
    samples: int,
    seed: int,
) -> list[Answer]:
    """As agent.demo.driver.measure, past the HTTP edge: the same prompts, limits and seeds."""
    places = asyncio.Semaphore(CONCURRENCY)

    async def ask(prompt: str, draw: int) -> Answer:
        request = CompletionRequest(
            model=model,
            prompt_token_ids=tokenizer.render_chat([Message(role="user", content=prompt)]),
            sampling=SamplingParams(temperature=TEMPERATURE, max_tokens=MAX_TOKENS, seed=draw),
            stop_token_ids=tokenizer.stop_token_ids,
        )
        async with places:
            completion = await engine.complete(request)
        return Answer(
            prompt=prompt,
            text=tokenizer.decode(completion.token_ids),
            num_tokens=len(completion.token_ids),
            ended=completion.finish_reason is FinishReason.STOP,
            model=model,
        )

    jobs = [ask(prompt, seed + index * samples + k) for index, prompt in enumerate(prompts) for k in range(samples)]
    return list(await asyncio.gather(*jobs))
