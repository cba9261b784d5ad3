"""API keys move from the configuration into the store, where they can be made and revoked while the daemon runs."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE keys (
            id TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            scope TEXT NOT NULL,
            learn INTEGER NOT NULL,
            requests_per_minute INTEGER NOT NULL,
            tokens_per_day INTEGER NOT NULL,
            created_at TEXT NOT NULL,
            revoked_at TEXT,
            CONSTRAINT pk_keys PRIMARY KEY (id),
            CONSTRAINT uq_keys_sha256 UNIQUE (sha256)
        ) STRICT
        """
    )
    op.execute("CREATE INDEX ix_interactions_key_id_created_at ON interactions (key_id, created_at)")
