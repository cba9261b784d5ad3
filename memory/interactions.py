"""What was said and sampled, as a table one can ask. Knows nothing of judgements."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, Text, bindparam, column, func, insert, select, text

from memory import lexical, schema
from memory.chains import answered_part, hash_transcript, make_link, restore, transcript
from memory.database import Database
from memory.records import Interaction, Message
from memory.rows import among, values_of
from memory.states import Purpose

_table = schema.interactions
_child = _table.alias("child")
_IS_LIVE: ColumnElement[bool] = _table.c.purpose == Purpose.LIVE

_IS_KNOWN = select(_table.c.seq).where(_table.c.id == bindparam("known_id"))
_ADD_LEXICAL = text(
    "INSERT INTO interactions_fts (rowid, owner, turn, previous) VALUES (:seq, :owner, :turn, :previous)"
)
# bm25 weights of owner, turn, previous: the words of the turn count most, those of the turn before it also find it
# (answers live in the next turn and do not repeat the question's words). FTS5 says "lower is better".
_SEARCH_LEXICAL = text(
    "SELECT i.id AS id, -bm25(interactions_fts, 0.0, 1.0, 0.5) AS score FROM interactions_fts"
    " JOIN interactions AS i ON i.seq = interactions_fts.rowid"
    " WHERE interactions_fts MATCH :expression AND i.principal = :principal"
    " ORDER BY score DESC, i.seq DESC LIMIT :limit"
).columns(column("id", Text), column("score"))


class Interactions:
    """Append-only; a row is written once, when its interaction ended."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, rows: Sequence[Interaction]) -> None:
        """Append all or none; a row whose id is known is ignored. Durable on return."""

        def insert_all(connection: Connection) -> None:
            for row in rows:
                _insert(connection, row)

        await self._database.write(insert_all)

    async def get(self, interaction_id: str, *, principal: str | None = None) -> Interaction | None:
        """One by id; with `principal`, only if it is theirs."""
        wanted = select(_table.c.id).where(_table.c.id == interaction_id)
        return await self._first(wanted if principal is None else wanted.where(_table.c.principal == principal))

    async def get_many(self, ids: Sequence[str]) -> list[Interaction]:
        """Those that exist, in the order asked for."""
        return await self._database.read(lambda connection: read_interactions(connection, ids))

    async def by_idempotency_key(self, principal: str, key: str) -> list[Interaction]:
        """The choices of the request that came with this key."""
        wanted = select(_table.c.id).where(_table.c.principal == principal, _table.c.idempotency_key == key)
        return await self._all(wanted.order_by(_table.c.choice_index, _table.c.seq))

    async def continued_by(self, principal: str, messages: Sequence[Message]) -> Interaction | None:
        """The newest interaction whose conversation is what `messages` resends before its new turn."""
        answered = answered_part(messages)
        if not answered:
            return None
        is_same = _table.c.transcript_sha256 == hash_transcript(answered)
        wanted = select(_table.c.id).where(_table.c.principal == principal, is_same)
        return await self._first(wanted.order_by(_table.c.seq.desc()))

    async def session(self, principal: str, session_id: str) -> list[Interaction]:
        """A session's interactions, oldest first."""
        return await self._all(_of_session(principal, session_id).order_by(_table.c.seq))

    async def session_tail(self, principal: str, session_id: str) -> Interaction | None:
        """The newest interaction of a session."""
        return await self._first(_of_session(principal, session_id).order_by(_table.c.seq.desc()))

    async def choice(self, principal: str, request_id: str, choice_index: int) -> Interaction | None:
        """One choice of one request."""
        is_choice = (_table.c.request_id == request_id) & (_table.c.choice_index == choice_index)
        return await self._first(select(_table.c.id).where(is_choice, _table.c.principal == principal))

    async def next_turns(self, ids: Sequence[str]) -> dict[str, Interaction]:
        """The first interaction that continued each of `ids`, where there is one."""
        wanted = select(_table.c.id).where(among(_table.c.parent_id, ids)).order_by(_table.c.seq)
        first: dict[str, Interaction] = {}
        for child in await self._all(wanted):
            assert child.parent_id is not None
            first.setdefault(child.parent_id, child)
        return first

    async def closed(self, *, now: datetime, idle_s: float) -> list[Interaction]:
        """Live interactions that ended for good: continued, commented on, or idle for `idle_s`. Oldest first."""
        continued = select(_child.c.seq).where(_child.c.parent_id == _table.c.id).exists()
        commented = select(schema.feedback.c.seq).where(schema.feedback.c.interaction_id == _table.c.id).exists()
        idle = _table.c.completed_at <= now - timedelta(seconds=idle_s)
        wanted = select(_table.c.id).where(_IS_LIVE, continued | commented | idle)
        return await self._all(wanted.order_by(_table.c.seq))

    async def recent(self, limit: int, *, principal: str | None = None) -> list[Interaction]:
        """Newest first."""
        wanted = select(_table.c.id).order_by(_table.c.seq.desc()).limit(limit)
        return await self._all(wanted if principal is None else wanted.where(_table.c.principal == principal))

    async def count(self, *, after_id: str | None = None) -> int:
        """Live interactions, all or those that arrived after one of them."""
        wanted = select(func.count()).select_from(_table).where(_IS_LIVE)
        if after_id is not None:
            wanted = wanted.where(_table.c.seq > seq_of(_table.c.seq, _table.c.id, after_id))
        return await self._database.read(lambda connection: int(connection.execute(wanted).scalar_one()))

    async def newest_id(self) -> str | None:
        """The live interaction that arrived last: the argument of a later `count`."""
        wanted = select(_table.c.id).where(_IS_LIVE).order_by(_table.c.seq.desc()).limit(1)
        found: str | None = await self._database.read(lambda connection: connection.execute(wanted).scalar())
        return found

    async def search_lexical(self, principal: str, query: str, *, limit: int) -> list[tuple[str, float]]:
        """(id, BM25, higher is better) of this principal's interactions that share a word with `query`, best first.
        Any text is a valid query."""
        expression = lexical.match_expression(principal, query)
        if expression is None:
            return []
        values = {"expression": expression, "principal": principal, "limit": limit}

        def search(connection: Connection) -> list[tuple[str, float]]:
            return [(row.id, float(row.score)) for row in connection.execute(_SEARCH_LEXICAL, values)]

        return await self._database.read(search)

    async def _first(self, wanted: Select[Any]) -> Interaction | None:
        found = await self._all(wanted.limit(1))
        return found[0] if found else None

    async def _all(self, wanted: Select[Any]) -> list[Interaction]:
        return await self._database.read(lambda connection: select_interactions(connection, wanted))


def select_interactions(connection: Connection, wanted: Select[Any]) -> list[Interaction]:
    """Whole interactions for a selection of ids, in its order."""
    return read_interactions(connection, list(connection.execute(wanted).scalars()))


def read_interactions(connection: Connection, ids: Sequence[str]) -> list[Interaction]:
    """Those of `ids` that exist, in that order, put together from their chains."""
    rows = connection.execute(_with_ancestors(among(_table.c.id, ids)))
    restored = restore(row._asdict() for row in rows)
    return [restored[wanted] for wanted in ids if wanted in restored]


def seq_of(seq: Column[Any], identity: Column[Any], wanted: str) -> ColumnElement[int]:
    """The arrival number of one row, 0 when it is unknown."""
    return func.coalesce(select(seq).where(identity == wanted).scalar_subquery(), 0)


def _with_ancestors(condition: ColumnElement[bool]) -> Select[Any]:
    """Rows that fulfil `condition` and all that they lean on, parents before children."""
    parts = (_table.c.id, _table.c.parent_id, _table.c.chain_depth)
    chain = select(*parts).where(condition).cte("chain", recursive=True)
    parents = select(*parts).join(chain, _table.c.id == chain.c.parent_id).where(chain.c.chain_depth > 0)
    chain = chain.union(parents)
    return select(_table).where(_table.c.id.in_(select(chain.c.id))).order_by(_table.c.seq)


def _of_session(principal: str, session_id: str) -> Select[Any]:
    return select(_table.c.id).where(_table.c.principal == principal, _table.c.session_id == session_id)


def _insert(connection: Connection, interaction: Interaction) -> None:
    if connection.execute(_IS_KNOWN, {"known_id": interaction.id}).scalar() is not None:
        return  # one thread writes: nobody can come between this look and the insertion
    parent, parent_depth = _read_parent(connection, interaction)
    values = values_of(interaction) | values_of(make_link(interaction, parent, parent_depth=parent_depth))
    del values["messages"], values["prompt_token_ids"]
    values["transcript_sha256"] = hash_transcript(transcript(interaction))
    seq = connection.execute(insert(_table).returning(_table.c.seq), values).scalar_one()
    if interaction.purpose is Purpose.LIVE:
        turn, previous = turn_texts(interaction)
        words = {"owner": lexical.owner_term(interaction.principal), "turn": turn, "previous": previous}
        connection.execute(_ADD_LEXICAL, {"seq": seq, **words})


def _read_parent(connection: Connection, interaction: Interaction) -> tuple[Interaction | None, int]:
    """The stored parent and its depth. Nobody's row leans on another principal's: each can be erased alone."""
    is_parent = (_table.c.id == bindparam("parent_id")) & (_table.c.principal == bindparam("owner"))
    statement = select(_table.c.id, _table.c.chain_depth).where(is_parent)
    values = {"parent_id": interaction.parent_id, "owner": interaction.principal}
    row = connection.execute(statement, values).first()
    if row is None:
        return None, 0
    return read_interactions(connection, [row.id])[0], row.chain_depth


def turn_texts(interaction: Interaction) -> tuple[str, str]:
    """(the user's turn and its answer, the turn before it or "")."""
    messages = interaction.messages
    last_user = max((index for index, m in enumerate(messages) if m.role == "user"), default=len(messages))
    said = [m.content for m in messages[last_user:]]
    before = [m.content for m in messages[:last_user] if m.role in {"user", "assistant"}][-2:]
    return "\n".join([*said, interaction.text]), "\n".join(before)
