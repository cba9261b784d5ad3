"""Column types: how a record's field lies in a STRICT SQLite table.

Only five storage classes exist there, so times are text, truth values are integers, and arrays are little-endian
blobs. Knows nothing of any particular table.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import numpy as np
from pydantic import TypeAdapter
from sqlalchemy import Dialect, Integer, LargeBinary, Text
from sqlalchemy.types import TypeDecorator


class Utc(TypeDecorator[datetime]):
    """ISO 8601 with microseconds, always UTC: text that sorts as time does."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        del dialect
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a time without a zone cannot be stored: {value!r}")
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        del dialect
        return None if value is None else datetime.fromisoformat(value)


class Flag(TypeDecorator[bool]):
    """0 or 1."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: bool | None, dialect: Dialect) -> int | None:
        del dialect
        return None if value is None else int(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> bool | None:
        del dialect
        return None if value is None else bool(value)


class Word(TypeDecorator[StrEnum]):
    """A member of an enumeration, by its value; an unknown value is an error when it is read."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:
        del dialect
        return None if value is None else self.kind(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        del dialect
        return None if value is None else self.kind(value)


class Json(TypeDecorator[Any]):
    """A tuple or nested record as JSON text, checked against its type when it is read."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind
        self._adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        del dialect
        return None if value is None else self._adapter.dump_json(value).decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        del dialect
        return None if value is None else self._adapter.validate_json(value)


class Ids(TypeDecorator[tuple[int, ...]]):
    """Token ids, int32."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: tuple[int, ...] | None, dialect: Dialect) -> bytes | None:
        del dialect
        return None if value is None else np.asarray(value, dtype="<i4").tobytes()

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> tuple[int, ...] | None:
        del dialect
        return None if value is None else tuple(np.frombuffer(value, dtype="<i4").tolist())


class Floats(TypeDecorator[tuple[float, ...]]):
    """Logprobs and vectors, float32: what is read is the nearest float32 of what was given."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: tuple[float, ...] | None, dialect: Dialect) -> bytes | None:
        del dialect
        return None if value is None else np.asarray(value, dtype="<f4").tobytes()

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> tuple[float, ...] | None:
        del dialect
        return None if value is None else tuple(np.frombuffer(value, dtype="<f4").tolist())
