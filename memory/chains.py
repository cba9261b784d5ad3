"""How an interaction is kept as what it adds to the one it continues, and how it is put together again.

Clients resend the whole history with each turn, so whole prompts and message lists would grow with the square of a
session's length. A row holds the length of the prefix it shares with its parent (messages plus answer; prompt plus
sampled ids) and the rest. Every MAX_DEPTH-th row of a chain is whole, which bounds what one read has to fetch.
Pure: knows rows as mappings, not the database.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memory.records import Interaction, Message

MAX_DEPTH = 32
_DERIVED = ("seq", "chain_depth", "messages_shared", "messages_suffix", "prompt_shared", "prompt_suffix")
_DROPPED = (*_DERIVED, "transcript_sha256")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What a row adds to its parent's; the fields are columns."""

    chain_depth: int = 0
    """0: whole."""
    messages_shared: int = 0
    messages_suffix: tuple[Message, ...]
    prompt_shared: int = 0
    prompt_suffix: tuple[int, ...]


def make_link(interaction: Interaction, parent: Interaction | None, *, parent_depth: int) -> Link:
    """The interaction relative to `parent`, or whole when there is none or the chain is long enough."""
    if parent is None or parent_depth + 1 >= MAX_DEPTH:
        return Link(messages_suffix=interaction.messages, prompt_suffix=interaction.prompt_token_ids)
    messages_shared = _num_shared_messages(transcript(parent), interaction.messages)
    prompt_shared = _num_shared_ids(parent.prompt_token_ids + parent.token_ids, interaction.prompt_token_ids)
    return Link(
        chain_depth=parent_depth + 1,
        messages_shared=messages_shared,
        messages_suffix=interaction.messages[messages_shared:],
        prompt_shared=prompt_shared,
        prompt_suffix=interaction.prompt_token_ids[prompt_shared:],
    )


def restore(rows: Iterable[Mapping[str, Any]]) -> dict[str, Interaction]:
    """Interactions by id from rows in order of `seq`, every ancestor that a row leans on among them."""
    restored: dict[str, Interaction] = {}
    for row in rows:
        messages, prompt = row["messages_suffix"], row["prompt_suffix"]
        if row["chain_depth"]:
            parent = restored[row["parent_id"]]
            messages = transcript(parent)[: row["messages_shared"]] + messages
            prompt = (parent.prompt_token_ids + parent.token_ids)[: row["prompt_shared"]] + prompt
        fields = {name: value for name, value in row.items() if name not in _DROPPED}
        restored[row["id"]] = Interaction(**fields, messages=messages, prompt_token_ids=prompt)
    return restored


def transcript(interaction: Interaction) -> tuple[Message, ...]:
    """The conversation as a client holds it after this interaction."""
    return (*interaction.messages, Message(role="assistant", content=interaction.text))


def hash_transcript(messages: Sequence[Message]) -> bytes:
    """sha256 over roles and contents, length-prefixed. Outer white space does not count: clients trim it."""
    digest = hashlib.sha256()
    for message in messages:
        for part in (message.role, message.content.strip()):
            data = part.encode(errors="surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


def answered_part(messages: Sequence[Message]) -> Sequence[Message]:
    """Up to and including the last assistant message: what an earlier interaction may have left behind."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "assistant":
            return messages[: index + 1]
    return ()


def _num_shared_messages(left: Sequence[Message], right: Sequence[Message]) -> int:
    pairs = zip(left, right, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def _num_shared_ids(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    length = min(len(left), len(right))
    differs = np.asarray(left[:length]) != np.asarray(right[:length])  # (length,)
    return int(np.argmax(differs)) if differs.any() else length
