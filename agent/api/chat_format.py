"""Turns in the words of OpenAI's chat completions: whole, and as chunks. Pure: a turn goes in, JSON comes out."""

import hashlib
from collections.abc import Mapping, Sequence

from agent.turn import Choice, TokenLogprob, Turn
from memory.states import FinishReason
from memory.tokens import Tokenizer

Json = dict[str, object]

_FINISH = {FinishReason.STOP: "stop", FinishReason.LENGTH: "length", FinishReason.ABORT: "stop"}


def whole_completion(turn: Turn, tokens: Mapping[int, Sequence[TokenLogprob]] | None, tokenizer: Tokenizer) -> Json:
    """The answer in one piece; with logprobs where `tokens` are given."""
    choices = [
        {
            "index": choice.index,
            "message": {"role": "assistant", "content": choice.text, "refusal": None},
            "logprobs": None if tokens is None else _logprobs(tokens[choice.index], tokenizer),
            "finish_reason": _finish_reason(choice),
        }
        for choice in turn.choices
    ]
    return {**_envelope(turn, "chat.completion"), "choices": choices, "usage": usage(turn)}


def chunk(
    turn: Turn,
    index: int,
    delta: Mapping[str, str],
    tokens: Sequence[TokenLogprob] = (),
    tokenizer: Tokenizer | None = None,
) -> Json:
    """One piece of one choice; with logprobs where there is a tokenizer to name tokens."""
    logprobs = _logprobs(tokens, tokenizer) if tokenizer is not None and tokens else None
    choice = {"index": index, "delta": dict(delta), "logprobs": logprobs, "finish_reason": None}
    return {**_envelope(turn, "chat.completion.chunk"), "choices": [choice], "usage": None}


def finishing_chunk(turn: Turn, choice: Choice) -> Json:
    """The last of a choice: its delta is empty."""
    ending = {"index": choice.index, "delta": {}, "logprobs": None, "finish_reason": _finish_reason(choice)}
    return {**_envelope(turn, "chat.completion.chunk"), "choices": [ending], "usage": None}


def usage_chunk(turn: Turn) -> Json:
    return {**_envelope(turn, "chat.completion.chunk"), "choices": [], "usage": usage(turn)}


def usage(turn: Turn) -> Json:
    """Tokens read once and sampled in all choices."""
    num_prompt = len(turn.prompt.token_ids)
    num_completion = sum(len(choice.tokens) for choice in turn.choices)
    return {
        "prompt_tokens": num_prompt,
        "completion_tokens": num_completion,
        "total_tokens": num_prompt + num_completion,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _envelope(turn: Turn, kind: str) -> Json:
    version = turn.served.version
    weights = f"{version.base_fingerprint}/{version.sha256 or ''}"
    return {
        "id": turn.request_id,
        "object": kind,
        "created": int(turn.created_at.timestamp()),
        "model": turn.served.shown_as,
        "system_fingerprint": f"fp_{hashlib.sha256(weights.encode()).hexdigest()[:12]}",
    }


def _finish_reason(choice: Choice) -> str:
    assert choice.finish_reason is not None
    return _FINISH[choice.finish_reason]


def _logprobs(tokens: Sequence[TokenLogprob], tokenizer: Tokenizer) -> Json:
    content = [
        {
            **_token(token.token_id, token.logprob, tokenizer),
            "top_logprobs": [_token(token_id, logprob, tokenizer) for token_id, logprob in token.top],
        }
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def _token(token_id: int, logprob: float, tokenizer: Tokenizer) -> Json:
    return {
        "token": tokenizer.token_text(token_id),
        "logprob": max(logprob, -9999.0),  # as OpenAI writes the impossible; JSON has no infinity
        "bytes": list(tokenizer.token_bytes(token_id)),
    }
