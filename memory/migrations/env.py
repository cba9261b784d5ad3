"""How Alembic reaches the store: over the connection that memory.database hands in."""

from alembic import context

from memory.schema import LEXICAL_TABLE, metadata


def _is_ours(
    schema_object: object,
    name: str | None,
    type_: str,
    reflected: bool,
    compare_to: object,
) -> bool:
    """FTS5 keeps shadow tables of its own; SQLAlchemy describes none of them."""
    del schema_object, reflected, compare_to
    return not (type_ == "table" and name is not None and name.startswith(LEXICAL_TABLE))


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    include_object=_is_ours,
)
context.run_migrations()
