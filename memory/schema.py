"""The tables: the one list of columns that the store, its migrations and their test share.

A table of facts has `seq`, SQLite's own rising number, which is the order of arrival; wall time is only a column.
Every other column is a field of the record of the same name (memory/records.py), but for `interactions`, whose
messages and prompt are kept as what they add to the interaction they continue (memory/chains.py).
"""

from typing import Any

from sqlalchemy import REAL, Column, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text, UniqueConstraint

from memory.columns import Flag, Floats, Ids, Json, Utc, Word
from memory.records import FailureMode, Message, SamplingParams, Timings
from memory.states import (
    Cause,
    EvidenceKind,
    FinishReason,
    Method,
    Outcome,
    PassStatus,
    Purpose,
    Remedy,
    Scope,
    Split,
    UpdateStatus,
    VersionOrigin,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _facts(name: str, *parts: Column[Any] | Index | UniqueConstraint) -> Table:
    """A table that is appended to, in the order of `seq`; a number is never used twice."""
    seq = Column("seq", Integer, primary_key=True, autoincrement=True)
    return Table(name, metadata, seq, *parts, sqlite_autoincrement=True, sqlite_strict=True)


def _text(name: str, *, nullable: bool = False, unique: bool = False) -> Column[Any]:
    return Column(name, Text, nullable=nullable, unique=unique)


def _interaction_id(*, primary_key: bool = False) -> Column[Any]:
    return Column("interaction_id", Text, ForeignKey("interactions.id"), nullable=False, primary_key=primary_key)


interactions = _facts(
    "interactions",
    _text("id", unique=True),
    _text("request_id"),
    Column("choice_index", Integer, nullable=False),
    _text("principal"),
    _text("key_id", nullable=True),
    _text("session_id"),
    _text("parent_id", nullable=True),  # no foreign key: a parent may still be in flight when its child is stored
    Column("created_at", Utc, nullable=False),
    Column("completed_at", Utc, nullable=False),
    _text("model"),
    Column("chain_depth", Integer, nullable=False),  # 0: messages and prompt are whole in this row
    Column("messages_shared", Integer, nullable=False),
    Column("messages_suffix", Json(tuple[Message, ...]), nullable=False),
    Column("prompt_shared", Integer, nullable=False),
    Column("prompt_suffix", Ids, nullable=False),
    _text("tools_json", nullable=True),
    _text("system_prompt", nullable=True),
    Column("recalled_ids", Json(tuple[str, ...]), nullable=False),
    Column("token_ids", Ids, nullable=False),
    Column("logprobs", Floats, nullable=False),
    Column("num_unsent", Integer, nullable=False),
    _text("text"),
    Column("sampling", Json(SamplingParams), nullable=False),
    _text("constraint_id", nullable=True),
    _text("precision"),
    Column("policy_version", Integer, nullable=False),
    _text("base_fingerprint"),
    Column("finish_reason", Word(FinishReason), nullable=False),
    Column("outcome", Word(Outcome), nullable=False),
    Column("cause", Word(Cause), nullable=False),
    _text("error", nullable=True),
    Column("timings", Json(Timings), nullable=False),
    _text("idempotency_key", nullable=True),
    Column("purpose", Word(Purpose), nullable=False),
    Column("learn", Flag, nullable=False),
    Column("transcript_sha256", LargeBinary, nullable=False),
    Index(None, "principal", "session_id"),
    Index(None, "principal", "transcript_sha256"),
    Index(None, "principal", "idempotency_key"),
    Index(None, "request_id"),
    Index(None, "parent_id"),
    Index(None, "key_id", "created_at"),
)

feedback = _facts(
    "feedback",
    _text("id", unique=True),
    Column("created_at", Utc, nullable=False),
    _text("principal"),
    _interaction_id(),
    Column("score", REAL),
    _text("comment", nullable=True),
    _text("correction", nullable=True),
    _text("metric_name", nullable=True),
    Column("metric_value", REAL),
    _text("channel"),
    Index(None, "interaction_id"),
)

evidence = _facts(
    "evidence",
    _text("id", unique=True),
    Column("created_at", Utc, nullable=False),
    _interaction_id(),
    Column("kind", Word(EvidenceKind), nullable=False),
    _text("source_id"),
    Column("score", REAL),
    _text("text", nullable=True),
    _text("correction", nullable=True),
    UniqueConstraint("interaction_id", "source_id"),
)

verdicts = _facts(
    "verdicts",
    _text("id", unique=True),
    Column("created_at", Utc, nullable=False),
    _text("pass_id"),
    _interaction_id(),
    Column("score", REAL, nullable=False),
    Column("reasons", Json(tuple[str, ...]), nullable=False),
    _text("hint", nullable=True),
    _text("correction", nullable=True),
    Column("evidence_ids", Json(tuple[str, ...]), nullable=False),
    Index(None, "interaction_id"),
)

abstentions = _facts(
    "abstentions",
    _text("id", unique=True),
    Column("created_at", Utc, nullable=False),
    _text("pass_id"),
    _interaction_id(),
    _text("reason"),
    Column("evidence_ids", Json(tuple[str, ...]), nullable=False),
    Index(None, "interaction_id"),
)

assignments = Table(
    "assignments",
    metadata,
    _interaction_id(primary_key=True),
    _text("group_id"),
    Column("split", Word(Split), nullable=False),
    _text("cluster_id", nullable=True),
    _text("state"),
    Column("similarity", REAL),
    sqlite_strict=True,
)

clusters = Table(
    "clusters",
    metadata,
    Column("id", Text, primary_key=True, nullable=False),
    _text("label"),
    Column("centroid", Floats, nullable=False),
    Column("size", Integer, nullable=False),
    Column("num_principals", Integer, nullable=False),
    Column("trend", REAL),
    Column("created_at", Utc, nullable=False),
    Column("updated_at", Utc, nullable=False),
    sqlite_strict=True,
)

passes = _facts(
    "passes",
    _text("id", unique=True),
    _text("trigger"),
    Column("started_at", Utc, nullable=False),
    Column("ended_at", Utc),
    Column("status", Word(PassStatus), nullable=False),
    _text("reason", nullable=True),
    Column("num_interactions", Integer, nullable=False),
    Column("num_verdicts", Integer, nullable=False),
    Column("num_abstentions", Integer, nullable=False),
)

reflections = _facts(
    "reflections",
    _text("id", unique=True),
    Column("created_at", Utc, nullable=False),
    _text("pass_id"),
    _text("cluster_id"),
    _text("label"),
    Column("num_interactions", Integer, nullable=False),
    Column("num_judged", Integer, nullable=False),
    Column("num_principals", Integer, nullable=False),
    Column("score", REAL),
    Column("score_low", REAL),
    Column("score_high", REAL),
    Column("failure_modes", Json(tuple[FailureMode, ...]), nullable=False),
    _text("diagnosis"),
    Column("remedy", Word(Remedy), nullable=False),
    Column("num_proposed", Integer, nullable=False),
    Column("left_out", Json(tuple[tuple[str, int], ...]), nullable=False),
    Index(None, "pass_id"),
    Index(None, "cluster_id"),
)

examples = _facts(
    "examples",
    _text("id", unique=True),
    Column("created_at", Utc, nullable=False),
    _text("reflection_id"),
    _interaction_id(),
    _text("cluster_id"),
    _text("principal"),
    Column("method", Word(Method), nullable=False),
    Column("split", Word(Split), nullable=False),
    _text("hint", nullable=True),
    _text("correction", nullable=True),
    Column("evidence_ids", Json(tuple[str, ...]), nullable=False),
    Column("weight", REAL, nullable=False),
    Index(None, "interaction_id"),
    Index(None, "cluster_id"),
)

updates = _facts(
    "updates",
    _text("id", unique=True),
    _text("trigger"),
    Column("started_at", Utc, nullable=False),
    Column("ended_at", Utc),
    Column("status", Word(UpdateStatus), nullable=False),
    _text("reason", nullable=True),
    Column("parent_version", Integer, nullable=False),
    Column("published_version", Integer),
    _text("plan_json"),
    _text("metrics_json"),
    _text("scorecard_json"),
)

uses = _facts(
    "uses",
    Column("update_id", Text, ForeignKey("updates.id"), nullable=False),
    _interaction_id(),
    _text("role"),
    _text("reason"),
    Column("weight", REAL, nullable=False),
    Index(None, "update_id"),
    Index(None, "interaction_id"),
)

versions = Table(
    "versions",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False, nullable=False),
    Column("parent", Integer),
    Column("origin", Word(VersionOrigin), nullable=False),
    _text("update_id", nullable=True),
    Column("copied_from", Integer),
    _text("adapter_path", nullable=True),
    _text("sha256", nullable=True),
    _text("base_fingerprint"),
    Column("created_at", Utc, nullable=False),
    _text("note"),
    sqlite_strict=True,
)

keys = Table(
    "keys",
    metadata,
    Column("id", Text, primary_key=True, nullable=False),
    _text("sha256", unique=True),
    Column("scope", Word(Scope), nullable=False),
    Column("learn", Flag, nullable=False),
    Column("requests_per_minute", Integer, nullable=False),
    Column("tokens_per_day", Integer, nullable=False),
    Column("created_at", Utc, nullable=False),
    Column("revoked_at", Utc),
    sqlite_strict=True,
)

embeddings = _facts(
    "embeddings",
    _interaction_id(),
    _text("embed_id"),
    _text("kind"),
    Column("vector", Floats, nullable=False),
    UniqueConstraint("embed_id", "kind", "interaction_id"),
)

state = Table(
    "state",
    metadata,
    Column("key", Text, primary_key=True, nullable=False),
    _text("value"),
    sqlite_strict=True,
)

LEXICAL_TABLE = "interactions_fts"
"""The FTS5 table (rowid = interactions.seq; columns owner, turn, previous). Only migrations create it: SQLAlchemy
cannot describe it."""
