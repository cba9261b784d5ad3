"""A request that was answered before, by its idempotency key: the stored turn, ready to be formatted again."""

from agent.prompt import Prompt
from agent.publishing import BASE, Served, engine_name
from agent.session import Session
from agent.turn import Chat, Choice, Delta, TokenLogprob, Turn
from memory.records import Interaction
from memory.store import Store


class IdempotencyMismatchError(ValueError):
    """The key was used before, for another request."""


async def replay_turn(store: Store, chat: Chat) -> Turn | None:
    """The turn that this key was answered with, complete and closed. Raises IdempotencyMismatchError."""
    assert chat.idempotency_key is not None
    rows = await store.interactions.by_idempotency_key(chat.caller.principal, chat.idempotency_key)
    if not rows:
        return None
    first = rows[0]
    if (first.model, first.messages, len(rows)) != (chat.model, chat.messages, chat.num_choices):
        raise IdempotencyMismatchError("This idempotency key was used for another request.")
    version = await store.updates.version(first.policy_version)
    assert version is not None
    shown_as = BASE if first.model == BASE else version.name
    turn = Turn(
        request_id=first.request_id,
        chat=chat,
        session=Session(id=first.session_id, parent_id=first.parent_id),
        served=Served(engine_model=engine_name(version), shown_as=shown_as, version=version),
        prompt=Prompt(token_ids=first.prompt_token_ids, max_tokens=first.sampling.max_tokens),
        system_prompt=first.system_prompt,
        recalled_ids=first.recalled_ids,
        choices=tuple(_stored_choice(row) for row in sorted(rows, key=lambda row: row.choice_index)),
        created_at=first.created_at,
        admitted_at_s=0.0,
    )
    for row in rows:
        sent = [TokenLogprob(token_id=i, logprob=p) for i, p in zip(row.token_ids, row.logprobs, strict=True)]
        delta = Delta(choice_index=row.choice_index, text=row.text, tokens=tuple(sent[: len(sent) - row.num_unsent]))
        turn.send(delta)
    turn.close()
    return turn


def _stored_choice(row: Interaction) -> Choice:
    """Without text: that arrives as a delta."""
    return Choice(
        id=row.id,
        index=row.choice_index,
        sampling=row.sampling,
        tokens=[TokenLogprob(token_id=i, logprob=p) for i, p in zip(row.token_ids, row.logprobs, strict=True)],
        num_unsent=row.num_unsent,
        finish_reason=row.finish_reason,
    )
