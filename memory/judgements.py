"""What reflection made of the facts: evidence, verdicts, clusters, reflections, examples. Judged elsewhere."""

from collections.abc import Sequence
from typing import Any, TypeVar

from sqlalchemy import Select, Table, func, select
from sqlalchemy.dialects.sqlite import insert

from memory import schema
from memory.database import Database
from memory.records import Abstention, Assignment, Cluster, Evidence, Example, Reflection, ReflectionPass, Verdict
from memory.rows import among, end_run, insert_records, read_records, select_records, write_rows
from memory.states import PassStatus, Split

R = TypeVar("R")


class Judgements:
    """Append-only but for assignments and clusters, which say where things stand now."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin_pass(self, started: ReflectionPass) -> None:
        await self._database.write(lambda connection: write_rows(connection, insert(schema.passes), [started]))

    async def end_pass(self, ended: ReflectionPass) -> None:
        """Write the end of a running pass. Raises LookupError when there is none to end."""
        await self._database.write(lambda connection: end_run(connection, schema.passes, ended, PassStatus.RUNNING))

    async def passes(self, limit: int = 20) -> list[ReflectionPass]:
        """Newest first."""
        newest = select_records(schema.passes).order_by(schema.passes.c.seq.desc()).limit(limit)
        return await self._read(ReflectionPass, newest)

    async def get_pass(self, pass_id: str) -> ReflectionPass | None:
        found = await self._read(ReflectionPass, select_records(schema.passes).where(schema.passes.c.id == pass_id))
        return found[0] if found else None

    async def add_evidence(self, rows: Sequence[Evidence]) -> None:
        """Append; what is known of an interaction from the same source is ignored."""
        await self._append(schema.evidence, rows)

    async def evidence_for(self, ids: Sequence[str]) -> dict[str, list[Evidence]]:
        """Oldest first; an interaction without evidence has no entry."""
        table = schema.evidence
        wanted = select_records(table).where(among(table.c.interaction_id, ids)).order_by(table.c.seq)
        found: dict[str, list[Evidence]] = {}
        for row in await self._read(Evidence, wanted):
            found.setdefault(row.interaction_id, []).append(row)
        return found

    async def add_verdicts(self, rows: Sequence[Verdict]) -> None:
        await self._append(schema.verdicts, rows)

    async def add_abstentions(self, rows: Sequence[Abstention]) -> None:
        await self._append(schema.abstentions, rows)

    async def latest(self, ids: Sequence[str]) -> dict[str, Verdict | Abstention]:
        """What the judge last said of each interaction."""
        decided: list[Verdict | Abstention] = [
            *await self._read(Abstention, _about(schema.abstentions, ids)),
            *await self._read(Verdict, _about(schema.verdicts, ids)),
        ]
        return {row.interaction_id: row for row in sorted(decided, key=lambda row: row.created_at)}

    async def put_assignments(self, rows: Sequence[Assignment]) -> None:
        """Place interactions. Group and split of one that has a place never change."""
        table = schema.assignments
        statement = insert(table)
        moved = {name: statement.excluded[name] for name in ("cluster_id", "state", "similarity")}
        upsert = statement.on_conflict_do_update(index_elements=["interaction_id"], set_=moved)
        await self._put(upsert, rows)

    async def assignments(self, ids: Sequence[str] | None = None) -> dict[str, Assignment]:
        """By interaction; of all interactions when `ids` is None."""
        wanted = select_records(schema.assignments)
        if ids is not None:
            wanted = wanted.where(among(schema.assignments.c.interaction_id, ids))
        return {row.interaction_id: row for row in await self._read(Assignment, wanted)}

    async def put_clusters(self, rows: Sequence[Cluster]) -> None:
        """Write clusters as they stand; when one was born never changes."""
        statement = insert(schema.clusters)
        kept = ("id", "created_at")
        changed = {part.name: statement.excluded[part.name] for part in schema.clusters.c if part.name not in kept}
        await self._put(statement.on_conflict_do_update(index_elements=["id"], set_=changed), rows)

    async def clusters(self) -> list[Cluster]:
        """Biggest first."""
        table = schema.clusters
        return await self._read(Cluster, select_records(table).order_by(table.c.size.desc(), table.c.id))

    async def add_reflections(self, rows: Sequence[Reflection]) -> None:
        await self._append(schema.reflections, rows)

    async def reflections(
        self, *, pass_id: str | None = None, cluster_id: str | None = None, limit: int = 50
    ) -> list[Reflection]:
        """Newest first."""
        table = schema.reflections
        wanted = select_records(table).order_by(table.c.seq.desc()).limit(limit)
        if pass_id is not None:
            wanted = wanted.where(table.c.pass_id == pass_id)
        if cluster_id is not None:
            wanted = wanted.where(table.c.cluster_id == cluster_id)
        return await self._read(Reflection, wanted)

    async def add_examples(self, rows: Sequence[Example]) -> None:
        await self._append(schema.examples, rows)

    async def examples(self, *, split: Split | None = None, cluster_id: str | None = None) -> list[Example]:
        """The newest of each interaction and method, oldest first."""
        table = schema.examples
        newest = select(func.max(table.c.seq)).group_by(table.c.interaction_id, table.c.method)
        wanted = select_records(table).where(table.c.seq.in_(newest)).order_by(table.c.seq)
        if split is not None:
            wanted = wanted.where(table.c.split == split)
        if cluster_id is not None:
            wanted = wanted.where(table.c.cluster_id == cluster_id)
        return await self._read(Example, wanted)

    async def _read(self, kind: type[R], wanted: Select[Any]) -> list[R]:
        return await self._database.read(lambda connection: read_records(connection, kind, wanted))

    async def _append(self, table: Table, rows: Sequence[object]) -> None:
        await self._database.write(lambda connection: insert_records(connection, table, rows))

    async def _put(self, statement: Any, rows: Sequence[object]) -> None:
        await self._database.write(lambda connection: write_rows(connection, statement, rows))


def _about(table: Table, ids: Sequence[str]) -> Select[Any]:
    return select_records(table).where(among(table.c.interaction_id, ids)).order_by(table.c.seq)
