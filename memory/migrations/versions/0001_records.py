"""The first schema: the records, the lexical index beside the interactions, and the state of the clock.

Written as the SQL it runs, and never edited again: files made by it exist.
"""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

STATEMENTS = (
    """
    CREATE TABLE clusters (
        id TEXT NOT NULL,
        label TEXT NOT NULL,
        centroid BLOB NOT NULL,
        size INTEGER NOT NULL,
        num_principals INTEGER NOT NULL,
        trend REAL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        CONSTRAINT pk_clusters PRIMARY KEY (id)
    ) STRICT
    """,
    """
    CREATE TABLE interactions (
        seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        request_id TEXT NOT NULL,
        choice_index INTEGER NOT NULL,
        principal TEXT NOT NULL,
        key_id TEXT,
        session_id TEXT NOT NULL,
        parent_id TEXT,
        created_at TEXT NOT NULL,
        completed_at TEXT NOT NULL,
        model TEXT NOT NULL,
        chain_depth INTEGER NOT NULL,
        messages_shared INTEGER NOT NULL,
        messages_suffix TEXT NOT NULL,
        prompt_shared INTEGER NOT NULL,
        prompt_suffix BLOB NOT NULL,
        tools_json TEXT,
        system_prompt TEXT,
        recalled_ids TEXT NOT NULL,
        token_ids BLOB NOT NULL,
        logprobs BLOB NOT NULL,
        num_unsent INTEGER NOT NULL,
        text TEXT NOT NULL,
        sampling TEXT NOT NULL,
        constraint_id TEXT,
        precision TEXT NOT NULL,
        policy_version INTEGER NOT NULL,
        base_fingerprint TEXT NOT NULL,
        finish_reason TEXT NOT NULL,
        outcome TEXT NOT NULL,
        cause TEXT NOT NULL,
        error TEXT,
        timings TEXT NOT NULL,
        idempotency_key TEXT,
        purpose TEXT NOT NULL,
        learn INTEGER NOT NULL,
        transcript_sha256 BLOB NOT NULL,
        CONSTRAINT uq_interactions_id UNIQUE (id)
    ) STRICT
    """,
    "CREATE INDEX ix_interactions_parent_id ON interactions (parent_id)",
    "CREATE INDEX ix_interactions_principal_idempotency_key ON interactions (principal, idempotency_key)",
    "CREATE INDEX ix_interactions_principal_session_id ON interactions (principal, session_id)",
    "CREATE INDEX ix_interactions_principal_transcript_sha256 ON interactions (principal, transcript_sha256)",
    "CREATE INDEX ix_interactions_request_id ON interactions (request_id)",
    """
    CREATE TABLE passes (
        seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        "trigger" TEXT NOT NULL,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        status TEXT NOT NULL,
        reason TEXT,
        num_interactions INTEGER NOT NULL,
        num_verdicts INTEGER NOT NULL,
        num_abstentions INTEGER NOT NULL,
        CONSTRAINT uq_passes_id UNIQUE (id)
    ) STRICT
    """,
    """
    CREATE TABLE reflections (
        seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        created_at TEXT NOT NULL,
        pass_id TEXT NOT NULL,
        cluster_id TEXT NOT NULL,
        label TEXT NOT NULL,
        num_interactions INTEGER NOT NULL,
        num_judged INTEGER NOT NULL,
        num_principals INTEGER NOT NULL,
        score REAL,
        score_low REAL,
        score_high REAL,
        failure_modes TEXT NOT NULL,
        diagnosis TEXT NOT NULL,
        remedy TEXT NOT NULL,
        num_proposed INTEGER NOT NULL,
        left_out TEXT NOT NULL,
        CONSTRAINT uq_reflections_id UNIQUE (id)
    ) STRICT
    """,
    "CREATE INDEX ix_reflections_cluster_id ON reflections (cluster_id)",
    "CREATE INDEX ix_reflections_pass_id ON reflections (pass_id)",
    """
    CREATE TABLE state (
        "key" TEXT NOT NULL,
        value TEXT NOT NULL,
        CONSTRAINT pk_state PRIMARY KEY ("key")
    ) STRICT
    """,
    """
    CREATE TABLE updates (
        seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        "trigger" TEXT NOT NULL,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        status TEXT NOT NULL,
        reason TEXT,
        parent_version INTEGER NOT NULL,
        published_version INTEGER,
        plan_json TEXT NOT NULL,
        metrics_json TEXT NOT NULL,
        scorecard_json TEXT NOT NULL,
        CONSTRAINT uq_updates_id UNIQUE (id)
    ) STRICT
    """,
    """
    CREATE TABLE versions (
        number INTEGER NOT NULL,
        parent INTEGER,
        origin TEXT NOT NULL,
        update_id TEXT,
        copied_from INTEGER,
        adapter_path TEXT,
        sha256 TEXT,
        base_fingerprint TEXT NOT NULL,
        created_at TEXT NOT NULL,
        note TEXT NOT NULL,
        CONSTRAINT pk_versions PRIMARY KEY (number)
    ) STRICT
    """,
    """
    CREATE TABLE abstentions (
        seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        created_at TEXT NOT NULL,
        pass_id TEXT NOT NULL,
        interaction_id TEXT NOT NULL,
        reason TEXT NOT NULL,
        evidence_ids TEXT NOT NULL,
        CONSTRAINT uq_abstentions_id UNIQUE (id),
        CONSTRAINT fk_abstentions_interaction_id FOREIGN KEY(interaction_id) REFERENCES interactions (id)
    ) STRICT
    """,
    "CREATE INDEX ix_abstentions_interaction_id ON abstentions (interaction_id)",
    """
    CREATE TABLE assignments (
        interaction_id TEXT NOT NULL,
        group_id TEXT NOT NULL,
        split TEXT NOT NULL,
        cluster_id TEXT,
        state TEXT NOT NULL,
        similarity REAL,
        CONSTRAINT pk_assignments PRIMARY KEY (interaction_id),
        CONSTRAINT fk_assignments_interaction_id FOREIGN KEY(interaction_id) REFERENCES interactions (id)
    ) STRICT
    """,
    """
    CREATE TABLE embeddings (
        seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        interaction_id TEXT NOT NULL,
        embed_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        vector BLOB NOT NULL,
        CONSTRAINT uq_embeddings_embed_id_kind_interaction_id UNIQUE (embed_id, kind, interaction_id),
        CONSTRAINT fk_embeddings_interaction_id FOREIGN KEY(interaction_id) REFERENCES interactions (id)
    ) STRICT
    """,
    """
    CREATE TABLE evidence (
        seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        created_at TEXT NOT NULL,
        interaction_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        source_id TEXT NOT NULL,
        score REAL,
        text TEXT,
        correction TEXT,
        CONSTRAINT uq_evidence_interaction_id_source_id UNIQUE (interaction_id, source_id),
        CONSTRAINT uq_evidence_id UNIQUE (id),
        CONSTRAINT fk_evidence_interaction_id FOREIGN KEY(interaction_id) REFERENCES interactions (id)
    ) STRICT
    """,
    """
    CREATE TABLE examples (
        seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        created_at TEXT NOT NULL,
        reflection_id TEXT NOT NULL,
        interaction_id TEXT NOT NULL,
        cluster_id TEXT NOT NULL,
        principal TEXT NOT NULL,
        method TEXT NOT NULL,
        split TEXT NOT NULL,
        hint TEXT,
        correction TEXT,
        evidence_ids TEXT NOT NULL,
        weight REAL NOT NULL,
        CONSTRAINT uq_examples_id UNIQUE (id),
        CONSTRAINT fk_examples_interaction_id FOREIGN KEY(interaction_id) REFERENCES interactions (id)
    ) STRICT
    """,
    "CREATE INDEX ix_examples_cluster_id ON examples (cluster_id)",
    "CREATE INDEX ix_examples_interaction_id ON examples (interaction_id)",
    """
    CREATE TABLE feedback (
        seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        created_at TEXT NOT NULL,
        principal TEXT NOT NULL,
        interaction_id TEXT NOT NULL,
        score REAL,
        comment TEXT,
        correction TEXT,
        metric_name TEXT,
        metric_value REAL,
        channel TEXT NOT NULL,
        CONSTRAINT uq_feedback_id UNIQUE (id),
        CONSTRAINT fk_feedback_interaction_id FOREIGN KEY(interaction_id) REFERENCES interactions (id)
    ) STRICT
    """,
    "CREATE INDEX ix_feedback_interaction_id ON feedback (interaction_id)",
    """
    CREATE TABLE uses (
        seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        update_id TEXT NOT NULL,
        interaction_id TEXT NOT NULL,
        role TEXT NOT NULL,
        reason TEXT NOT NULL,
        weight REAL NOT NULL,
        CONSTRAINT fk_uses_update_id FOREIGN KEY(update_id) REFERENCES updates (id),
        CONSTRAINT fk_uses_interaction_id FOREIGN KEY(interaction_id) REFERENCES interactions (id)
    ) STRICT
    """,
    "CREATE INDEX ix_uses_interaction_id ON uses (interaction_id)",
    "CREATE INDEX ix_uses_update_id ON uses (update_id)",
    """
    CREATE TABLE verdicts (
        seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        created_at TEXT NOT NULL,
        pass_id TEXT NOT NULL,
        interaction_id TEXT NOT NULL,
        score REAL NOT NULL,
        reasons TEXT NOT NULL,
        hint TEXT,
        correction TEXT,
        evidence_ids TEXT NOT NULL,
        CONSTRAINT uq_verdicts_id UNIQUE (id),
        CONSTRAINT fk_verdicts_interaction_id FOREIGN KEY(interaction_id) REFERENCES interactions (id)
    ) STRICT
    """,
    "CREATE INDEX ix_verdicts_interaction_id ON verdicts (interaction_id)",
    """
    CREATE VIRTUAL TABLE interactions_fts USING fts5(
        owner, turn, previous, tokenize = 'porter unicode61'
    )
    """,
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
