"""Bring a file's tables up to date with Alembic, where that is needed."""

from pathlib import Path

from sqlalchemy import Connection

MIGRATIONS = Path(__file__).parent / "migrations"
HEAD = "0002"
"""The newest of them."""


class NewerSchemaError(RuntimeError):
    """The file has been through migrations that this release does not know."""


def is_current(connection: Connection) -> bool:
    """True where nothing has to run."""
    has_any = connection.exec_driver_sql("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").scalar()
    return bool(has_any) and connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == HEAD


def migrate(connection: Connection) -> None:
    """Run what is missing, in the connection's transaction. Raises NewerSchemaError."""
    # Only here, because Alembic is 11 MB of the daemon's memory that most starts need not pay.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise NewerSchemaError(str(error)) from error
