"""Records as plain JSON: the fields' own names, times in ISO 8601, tuples as lists, enums as their values."""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum

Json = dict[str, object]


def to_json(value: object) -> object:
    """Any record, or what a record holds."""
    if is_dataclass(value) and not isinstance(value, type):
        return record_json(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def record_json(record: object, *, without: Iterable[str] = ()) -> Json:
    """One record; `without` leaves out fields that are long and not asked for."""
    assert is_dataclass(record)
    left_out = set(without)
    return {field.name: to_json(getattr(record, field.name)) for field in fields(record) if field.name not in left_out}
