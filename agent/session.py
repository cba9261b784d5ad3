"""Which session a chat belongs to, and which interaction it continues.

A client may name the session in a header. Chat clients that do not know us resend the whole history, so without one the
session is found by what was said: the newest interaction whose messages and completion are a prefix of the new chat.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from memory.records import Message, new_id
from memory.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    id: str
    parent_id: str | None
    """The interaction that the new one continues."""


async def find_session(store: Store, principal: str, messages: Sequence[Message], *, named: str | None) -> Session:
    """The session of a chat: the named one, else the one it continues, else a new one."""
    parent = None
    if any(message.role == "assistant" for message in messages):
        parent = await store.interactions.continued_by(principal, messages)
    if named is None:
        return Session(id=parent.session_id if parent else new_id("ses"), parent_id=parent.id if parent else None)
    if parent is None or parent.session_id != named:
        parent = await store.interactions.session_tail(principal, named)
    return Session(id=named, parent_id=parent.id if parent else None)
