"""From messages to the exact token ids that the engine reads. Pure: no store, no engine."""

from collections.abc import Sequence
from dataclasses import dataclass

from memory.records import Message
from memory.tokens import Tokenizer


class ContextLengthError(ValueError):
    """The prompt leaves no room for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    token_ids: tuple[int, ...]
    max_tokens: int
    """What was asked for, or what the context still holds, whichever is less."""


def build_prompt(
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    *,
    system_prompt: str | None,
    recalled: str,
    max_tokens: int,
    context_length: int,
) -> Prompt:
    """Render the chat with what the agent puts before it. Raises ContextLengthError."""
    rendered = tokenizer.render_chat(with_preamble(messages, system_prompt=system_prompt, recalled=recalled))
    room = context_length - len(rendered)
    if room < 1:
        raise ContextLengthError(
            f"This model's maximum context length is {context_length} tokens; "
            f"the messages take {len(rendered)}, which leaves no room for an answer."
        )
    return Prompt(token_ids=rendered, max_tokens=min(max_tokens, room))


def with_preamble(messages: Sequence[Message], *, system_prompt: str | None, recalled: str) -> tuple[Message, ...]:
    """One system message holds our prompt, the client's own and recalled memory: many templates know only one."""
    own = [message.content for message in messages if message.role == "system"]
    parts = [part for part in (system_prompt, *own, recalled) if part]
    if parts == own:
        return tuple(messages)
    rest = tuple(message for message in messages if message.role != "system")
    return (Message(role="system", content="\n\n".join(parts)), *rest)
