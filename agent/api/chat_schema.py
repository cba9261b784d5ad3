"""The body of POST /v1/chat/completions: every field with its bounds, and how it becomes a Chat.

Unknown fields are ignored, as clients expect. Known fields whose meaning is not offered are refused by name, because
ignoring them would be a wrong answer.
"""

from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agent.api.errors import bad_request
from agent.respond import new_seed
from agent.tables import PolicySettings
from agent.turn import Caller, Chat
from memory.records import Message, SamplingParams

_MAX_STOP_BYTES = 256
_MAX_NAME = 256
"""Characters of a session id or an idempotency key."""
_UNSUPPORTED = ("tools", "functions", "audio", "prediction", "web_search_options")
"""Refused unless absent, null or empty."""

StopText = Annotated[str, Field(min_length=1, max_length=_MAX_STOP_BYTES)]
BiasKey = Annotated[str, Field(pattern=r"^\d{1,7}$")]
Bias = Annotated[float, Field(ge=-100, le=100)]


class StrictModel(BaseModel):
    """No coercion: "1" is not a number and true is not 1."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class TextPart(StrictModel):
    type: Literal["text"]
    text: str


class ChatMessage(StrictModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    tool_call_id: str | None = None
    tool_calls: list[Any] | None = None

    @model_validator(mode="after")
    def _has_what_its_role_needs(self) -> "ChatMessage":
        if self.tool_calls:
            raise ValueError("tool_calls are not supported")
        if self.content is None and self.role != "assistant":
            raise ValueError(f"a {self.role} message needs content")
        if self.role == "tool" and self.tool_call_id is None:
            raise ValueError("a tool message needs tool_call_id")
        return self

    def to_record(self) -> Message:
        content = self.content or ""
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        return Message(role="system" if self.role == "developer" else self.role, content=text)


class StreamOptions(StrictModel):
    include_usage: bool = False


class ResponseFormat(StrictModel):
    type: Literal["text"]


class ChatBody(StrictModel):
    """The request as it is on the wire."""

    model: str = Field(min_length=1, max_length=128)
    messages: list[ChatMessage] = Field(min_length=1, max_length=2048)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(None, ge=1, le=8)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=0, le=1_000_000)
    min_p: float | None = Field(None, ge=0, le=1)
    max_tokens: int | None = Field(None, ge=1, le=1_000_000)
    max_completion_tokens: int | None = Field(None, ge=1, le=1_000_000)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63 - 8)
    stop: StopText | Annotated[list[StopText], Field(max_length=4)] | None = None
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    logit_bias: dict[BiasKey, Bias] | None = Field(None, max_length=300)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    response_format: ResponseFormat | None = None
    tool_choice: Literal["none", "auto"] | None = None
    modalities: list[Literal["text"]] | None = None
    user: str | None = Field(None, max_length=_MAX_NAME)
    safety_identifier: str | None = Field(None, max_length=_MAX_NAME)
    metadata: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]] | None = Field(
        None, max_length=16
    )
    store: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_unsupported(cls, body: dict[str, object]) -> dict[str, object]:
        for name in _UNSUPPORTED:
            if body.get(name):
                raise bad_request(f"{name} is not supported.", param=name, code="unsupported_parameter")
        return body

    @field_validator("user", "safety_identifier")
    @classmethod
    def _user_can_be_told_apart(cls, value: str | None) -> str | None:
        return value or None

    @model_validator(mode="after")
    def _fields_agree(self) -> "ChatBody":
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs to be true")
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options needs stream to be true")
        return self

    @property
    def speaker(self) -> str | None:
        """The end user that the request names."""
        return self.user or self.safety_identifier

    def to_chat(self, request: web.Request, caller: Caller, defaults: PolicySettings) -> Chat:
        """What was asked, with the operator's defaults where the request is silent."""
        return Chat(
            caller=caller,
            model=self.model,
            messages=tuple(message.to_record() for message in self.messages),
            sampling=self._sampling(defaults),
            num_choices=self.n or 1,
            top_logprobs=self.top_logprobs or 0,
            learn=self.store is not False,
            session_name=_short_header(request, "X-Session-Id"),
            idempotency_key=_short_header(request, "Idempotency-Key"),
        )

    def _sampling(self, defaults: PolicySettings) -> SamplingParams:
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return SamplingParams(
            temperature=defaults.temperature if self.temperature is None else self.temperature,
            top_p=defaults.top_p if self.top_p is None else self.top_p,
            top_k=self.top_k or 0,
            min_p=self.min_p or 0.0,
            max_tokens=self.max_completion_tokens or self.max_tokens or defaults.max_tokens,
            seed=new_seed() if self.seed is None else self.seed,
            stop=stop,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            logit_bias=tuple(sorted((int(key), bias) for key, bias in (self.logit_bias or {}).items())),
        )


def _short_header(request: web.Request, name: str) -> str | None:
    value = request.headers.get(name) or None
    if value is not None and len(value) > _MAX_NAME:
        raise bad_request(f"The header {name} is longer than {_MAX_NAME} characters.", param=name)
    return value
