"""Bring a file's tables up to date with Alembic, where that is needed."""

from pathlib import Path

from sqlalchemy import Connection

MIGRATIONS = Path(__file__).parent / "migrations"
HEAD = "0002"
"""The newest of them. Their names sort by age."""


def revision_of(connection: Connection) -> str | None:
    """The last migration that ran on this file; None for a new one."""
    has_any = connection.exec_driver_sql("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").scalar()
    if not has_any:
        return None
    found: str | None = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return found


def migrate(connection: Connection) -> None:
    """Run what is missing, in the connection's transaction."""
    # Only here, because Alembic is 11 MB of the daemon's memory that most starts need not pay.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
