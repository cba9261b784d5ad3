"""The fake engine keeps the contract of a real one."""

import pytest

from memory.completions import AdapterRejected, CompletionRequest, EngineUnavailable, InferenceClient, InferenceError
from memory.records import SamplingParams
from memory.states import FinishReason
from memory.tokens import Tokenizer
from tests.fakes import FakeEngine


def a_request(tokenizer: Tokenizer, *, max_tokens: int = 64) -> CompletionRequest:
    return CompletionRequest(
        model="base",
        prompt_token_ids=tokenizer.encode("What is a glacier?"),
        sampling=SamplingParams(max_tokens=max_tokens),
        stop_token_ids=tokenizer.stop_token_ids,
    )


async def test_it_says_what_it_was_told(tokenizer: Tokenizer) -> None:
    """The completion decodes to its words and ends with a stop token."""
    engine: InferenceClient = FakeEngine(tokenizer, "A river of ice.")
    completion = await engine.complete(a_request(tokenizer))
    assert tokenizer.decode(completion.token_ids) == "A river of ice."
    assert completion.finish_reason is FinishReason.STOP
    assert (await engine.complete(a_request(tokenizer, max_tokens=2))).finish_reason is FinishReason.LENGTH


async def test_it_goes_on_from_a_prompt_that_ends_with_its_own_words(tokenizer: Tokenizer) -> None:
    """As an engine with draws keyed by position does, it continues an answer that was begun."""
    engine = FakeEngine(tokenizer)
    whole = await engine.complete(a_request(tokenizer))
    begun = a_request(tokenizer)
    prompt = begun.prompt_token_ids + whole.token_ids[:3]
    rest = await engine.complete(
        CompletionRequest(
            model="base", prompt_token_ids=prompt, sampling=begun.sampling, stop_token_ids=begun.stop_token_ids
        )
    )
    assert whole.token_ids[3:] == rest.token_ids


async def test_it_breaks_and_refuses_as_told(tokenizer: Tokenizer) -> None:
    """A broken stream raises once; adapters have names and may be refused."""
    engine = FakeEngine(tokenizer)
    engine.break_after = 1
    with pytest.raises(EngineUnavailable):
        await engine.complete(a_request(tokenizer))
    await engine.complete(a_request(tokenizer))
    engine.rejects.add("policy@v1")
    with pytest.raises(AdapterRejected):
        await engine.load_adapter("policy@v1", "somewhere")
    with pytest.raises(InferenceError):
        await engine.unload_adapter("policy@v1")
    await engine.load_adapter("policy@v2", "somewhere")
    assert await engine.list_models() == ("base", "policy@v2")
