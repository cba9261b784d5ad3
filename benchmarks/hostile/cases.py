"""What every case of bad_input is, and the values that are wrong nearly everywhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

EDGES: tuple[Any, ...] = (
    None,
    True,
    False,
    -(2**63) - 1,
    -(2**63),
    -1,
    -0.0,
    0,
    1,
    0.5,
    2**31,
    2**63 - 1,
    2**63,
    10**300,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    "",
    "1",
    "null",
    "x" * 5000,
    "\u202e\ufeff\u0000",
    "'; DROP TABLE interactions; --",
    [],
    {},
    [[]],
    [None],
    {"": None},
    ["x"] * 2000,
)
"""Numbers at the edges of their types, the wrong types, text that breaks careless readers, and too much of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request, with what its refusal has to name."""

    area: str
    name: str
    path: str
    method: str = "POST"
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    named: str | None = None
    """The field, header or parameter that is wrong where anything is; None where the whole is malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one case."""

    area: str
    name: str
    outcome: str
    """`taken`, `refused`, or what went wrong."""
    message: str = ""

    @property
    def ok(self) -> bool:
        return self.outcome in {TAKEN, REFUSED}


TAKEN = "taken"
REFUSED = "refused"
BROKEN = "500 or traceback"
UNNAMED = "refused without naming it"
