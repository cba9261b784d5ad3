"""Records as a person reads them: tables, times as ages, and JSON when it is asked for."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 200
"""Columns where nobody looks at a screen: wide enough that a row stays one line for grep."""

STDOUT = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
STDERR = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else _PIPE_WIDTH)


def print_json(value: object) -> None:
    """Indented, and as wide as it is: for pipes."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """A table, or one sentence where there is nothing to show."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        STDOUT.print(empty)
        return
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in cells:
        table.add_row(*row)
    STDOUT.print(table)


def print_facts(facts: Mapping[str, object]) -> None:
    """Name and value, one a line; what is None is left out."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value is not None and value != "":
            table.add_row(name, _cell(value))
    STDOUT.print(table)


def age(moment: str | None, *, now: datetime | None = None) -> str:
    """How long ago, or in how long, an ISO 8601 time is: `3 min ago`, `in 2 h`."""
    if moment is None:
        return "-"
    seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(moment)).total_seconds()
    text = span(abs(seconds))
    return f"{text} ago" if seconds >= 0 else f"in {text}"


def span(seconds: float) -> str:
    """A length of time in its largest fitting unit."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def excerpt(text: str, length: int = 200) -> str:
    """One line of at most `length` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def _cell(value: Any) -> Text:
    """Never markup: users' words are shown as they are."""
    return Text("-" if value is None else str(value))
