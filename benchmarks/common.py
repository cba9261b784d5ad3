"""What every benchmark does alike: its table, its time, its last line of JSON, QUICK and SABOTAGE."""

import json
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

QUICK = os.environ.get("QUICK", "") not in {"", "0"}
"""A smaller honest run, in under ten minutes."""

console = Console(width=None if sys.stdout.isatty() else 140)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What a benchmark found, computed from what this run measured."""

    name: str
    value: float | None
    """The one number; None where the run could not get as far."""
    target: str
    ok: bool
    details: Mapping[str, Any] = field(default_factory=dict)


def sabotage(known: Sequence[str]) -> str | None:
    """The thing to break on purpose, from SABOTAGE; an unknown one ends the program."""
    wanted = os.environ.get("SABOTAGE") or None
    if wanted is not None and wanted not in known:
        sys.exit(f"SABOTAGE={wanted} is not known here; one of: {', '.join(known)}")
    return wanted


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console.print(table)


def finish(figure: Figure, *, started: float) -> int:
    """Print how long it took since `started` (perf_counter) and, last, the JSON line; gives the exit code."""
    seconds = time.perf_counter() - started
    console.print(f"{figure.name}: {seconds:.1f} s")
    line = {
        "name": figure.name,
        "value": figure.value,
        "target": figure.target,
        "ok": figure.ok,
        "details": {"seconds": round(seconds, 1), "quick": QUICK, **figure.details},
    }
    print(json.dumps(line), flush=True)
    return 0 if figure.ok else 1


def bootstrap_interval(differences: Sequence[float], *, num_draws: int = 4000) -> tuple[float, float]:
    """95 % percentile interval of the mean of paired differences."""
    rng = random.Random(0)  # noqa: S311 - a draw that can be repeated
    means = sorted(fmean(rng.choices(differences, k=len(differences))) for _ in range(num_draws))
    return means[int(0.025 * num_draws)], means[int(0.975 * num_draws) - 1]
