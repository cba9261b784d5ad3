"""The same log with other feedback: what was asked and sampled stays, who said what of it changes.

Reads the store of a stopped daemon and writes a fresh data directory through the store's own interface.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from memory.records import Feedback, Interaction, Message
from memory.store import Store, open_store
from memory.tokens import Tokenizer

MAX_LOG_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """What followed one answer: a next turn, or feedback, or both, or neither."""

    next_turn: Interaction | None
    feedback: tuple[Feedback, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedVisit:
    """A request as it was served, and the reaction to it."""

    interaction: Interaction
    reaction: Reaction


Rewrite = Callable[[Sequence[LoggedVisit]], list[LoggedVisit]]


def permuted(seed: int) -> Rewrite:
    """Reactions are dealt out again over all interactions, stories included."""

    def rewrite(visits: Sequence[LoggedVisit]) -> list[LoggedVisit]:
        reactions = [visit.reaction for visit in visits]
        random.Random(seed).shuffle(reactions)  # noqa: S311 - a draw that can be repeated
        return [replace(visit, reaction=reaction) for visit, reaction in zip(visits, reactions, strict=True)]

    return rewrite


def with_other_words(words: dict[str, str]) -> Rewrite:
    """Next turns that say a key of `words` say its value instead; everything else stays."""

    def rewrite(visits: Sequence[LoggedVisit]) -> list[LoggedVisit]:
        return [replace(visit, reaction=_reworded(visit.reaction, words)) for visit in visits]

    return rewrite


async def rewrite_log(source: Path, target: Path, *, rewrite: Rewrite, tokenizer: Tokenizer) -> int:
    """Write `source`'s log into the new data directory `target` with its reactions rewritten; gives the visits."""
    async with open_store(source) as store:
        visits = await _load_visits(store)
    async with open_store(target) as store:
        for visit in rewrite(visits):
            await _write_visit(store, visit, tokenizer)
    config = source / "config.toml"
    if config.exists():
        (target / "config.toml").write_bytes(config.read_bytes())
    return len(visits)


async def _load_visits(store: Store) -> list[LoggedVisit]:
    rows = [row for row in await store.interactions.recent(MAX_LOG_ROWS) if row.learn]
    feedback = await store.feedback.for_interactions([row.id for row in rows])
    next_turns = {row.parent_id: row for row in rows if row.parent_id is not None}
    first_turns = sorted((row for row in rows if row.parent_id is None), key=lambda row: row.id)
    return [
        LoggedVisit(
            interaction=row,
            reaction=Reaction(next_turn=next_turns.get(row.id), feedback=tuple(feedback.get(row.id, ()))),
        )
        for row in first_turns
    ]


async def _write_visit(store: Store, visit: LoggedVisit, tokenizer: Tokenizer) -> None:
    rows = [visit.interaction]
    if visit.reaction.next_turn is not None:
        rows.append(_continued(visit.interaction, visit.reaction.next_turn, tokenizer))
    await store.interactions.add(rows)
    for row in visit.reaction.feedback:
        moved = replace(row, interaction_id=visit.interaction.id, principal=visit.interaction.principal)
        await store.feedback.add(moved)


def _continued(first: Interaction, next_turn: Interaction, tokenizer: Tokenizer) -> Interaction:
    """`next_turn`'s words and sampled tokens as the next turn of `first`."""
    said = Message(role="user", content=next_turn.last_user_text)
    messages = (*first.messages, Message(role="assistant", content=first.text), said)
    created_at = max(next_turn.created_at, first.completed_at + timedelta(milliseconds=1))
    return replace(
        next_turn,
        principal=first.principal,
        key_id=first.key_id,
        session_id=first.session_id,
        parent_id=first.id,
        messages=messages,
        prompt_token_ids=tokenizer.render_chat(messages),
        created_at=created_at,
        completed_at=max(next_turn.completed_at, created_at),
    )


def _reworded(reaction: Reaction, words: dict[str, str]) -> Reaction:
    row = reaction.next_turn
    if row is None or row.last_user_text not in words:
        return reaction
    said = Message(role="user", content=words[row.last_user_text])
    return replace(reaction, next_turn=replace(row, messages=(*row.messages[:-1], said)))
