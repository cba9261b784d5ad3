"""The wire form of completions: vLLM's dialect of the OpenAI completions API, in token ids.

The engine has no tokenizer, so `text` is empty and tokens are named as vLLM names them under
`return_tokens_as_token_ids`: "token_id:N". Both ends of the wire are here: the payload and its answers, and how a
client reads them back.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as SequenceOf
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memory.completions import CompletionRequest, PromptScore, TopLogprobs
from memory.records import SamplingParams

MAX_TOP_LOGPROBS = 20
_TOKEN_PREFIX = "token_id:"  # noqa: S105 - vocabulary tokens, not secrets

Json = dict[str, Any]


class CompletionPayload(BaseModel):
    """Body of POST /v1/completions. An unknown key is refused: what is not understood must not seem to work."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    prompt: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=0)] = 16
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=-1)] = 0
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    seed: int = 0
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    logit_bias: dict[int, Annotated[float, Field(ge=-100, le=100)]] | None = None
    stop_token_ids: list[int] | None = None
    logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    prompt_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    stream: bool = False
    priority: int = 0
    n: Literal[1] = 1
    echo: Literal[False] = False
    return_token_ids: bool = True
    return_tokens_as_token_ids: bool = True
    add_special_tokens: bool = False
    """Means nothing for a prompt of ids; accepted because a vLLM server wants it said."""
    cache_salt: str | None = None
    """Nothing is shared between requests here, so there is nothing to separate."""

    @property
    def sampling(self) -> SamplingParams:
        return SamplingParams(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=max(0, self.top_k),
            min_p=self.min_p,
            max_tokens=self.max_tokens,
            seed=self.seed,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=tuple(sorted((self.logit_bias or {}).items())),
        )


def request_body(request: CompletionRequest, *, stream: bool) -> Json:
    """The payload a client sends."""
    sampling = request.sampling
    return {
        "model": request.model,
        "prompt": list(request.prompt_token_ids),
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "seed": sampling.seed,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "logit_bias": {str(token_id): bias for token_id, bias in sampling.logit_bias} or None,
        "stop_token_ids": list(request.stop_token_ids),
        "logprobs": request.top_logprobs,
        "priority": request.priority,
        "stream": stream,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "add_special_tokens": False,
    }


def score_body(model: str, token_ids: SequenceOf[int], *, top: int, priority: int) -> Json:
    """The payload that scores a prompt. It samples one token that nobody reads: vLLM knows no fewer."""
    return {
        "model": model,
        "prompt": list(token_ids),
        "max_tokens": 1,
        "temperature": 0,
        "prompt_logprobs": top,
        "priority": priority,
        "add_special_tokens": False,
    }


def choice_json(
    token_ids: SequenceOf[int],
    logprobs: Json | None,
    *,
    prompt_logprobs: list[Json | None] | None = None,
    finish_reason: str | None = None,
    stop_reason: int | None = None,
) -> Json:
    return {
        "index": 0,
        "text": "",
        "token_ids": list(token_ids),
        "logprobs": logprobs,
        "prompt_logprobs": prompt_logprobs,
        "finish_reason": finish_reason,
        "stop_reason": stop_reason,
    }


def logprobs_json(token_ids: SequenceOf[int], logprobs: SequenceOf[float], tops: SequenceOf[TopLogprobs]) -> Json:
    """As vLLM: `top_logprobs` of a token always holds the sampled one too."""
    return {
        "tokens": [f"{_TOKEN_PREFIX}{token_id}" for token_id in token_ids],
        "token_logprobs": list(logprobs),
        "top_logprobs": [
            {f"{_TOKEN_PREFIX}{other}": value for other, value in (*top, (token_id, logprob))}
            for token_id, logprob, top in zip(token_ids, logprobs, tops, strict=True)
        ],
        "text_offset": [0] * len(token_ids),
    }


def prompt_logprobs_json(prompt: SequenceOf[int], score: PromptScore) -> list[Json | None]:
    """One entry a prompt token, the first None; each maps token id to its logprob, the given token first."""
    rows: list[Json | None] = [None]
    tops = score.top or ((),) * len(score.logprobs)
    for token_id, logprob, top in zip(prompt[1:], score.logprobs, tops, strict=True):
        row: Json = {str(token_id): {"logprob": logprob, "rank": None, "decoded_token": None}}
        for rank, (other, value) in enumerate(top, start=1):
            row[str(other)] = {"logprob": value, "rank": rank, "decoded_token": None}
        rows.append(row)
    return rows


def read_top_logprobs(entries: Iterable[Mapping[str, float]], count: int) -> tuple[TopLogprobs, ...]:
    """The `count` most probable of each entry, most probable first."""
    return tuple(
        _most_probable(((int(name.removeprefix(_TOKEN_PREFIX)), value) for name, value in entry.items()), count)
        for entry in entries
    )


def read_prompt_row(row: Mapping[str, Json], token_id: int, count: int) -> tuple[float, TopLogprobs]:
    """(logprob of the given token, alternatives) from one entry of `prompt_logprobs`."""
    values = {int(name): float(entry["logprob"]) for name, entry in row.items()}
    return values[token_id], _most_probable(values.items(), count)


def _most_probable(pairs: Iterable[tuple[int, float]], count: int) -> TopLogprobs:
    return tuple(sorted(pairs, key=lambda pair: -pair[1])[:count])
