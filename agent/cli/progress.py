"""Progress of long work on the terminal: one bar a stage; plain lines where there is no terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn

from agent.sources import Report


@contextmanager
def progress_bar(console: Console, *, in_bytes: bool = False) -> Iterator[Report]:
    """Gives a function to call with (stage, done, total); a total of 0 shows that work goes on, not how far."""
    if not console.is_terminal:
        yield _PlainLines(console).report
        return
    amount: ProgressColumn = DownloadColumn() if in_bytes else TextColumn("{task.completed:.0f}/{task.total}")
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        yield _Bars(progress).report


class _Bars:
    """One bar per stage; a stage that gives way to the next is shown as done."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stage = ""
        self._task: TaskID | None = None

    def report(self, stage: str, done: int, total: int) -> None:
        if self._task is None or stage != self._stage:
            self._finish()
            self._stage = stage
            self._task = self._progress.add_task(stage, total=None)
        self._progress.update(self._task, completed=done, total=total or None)

    def _finish(self) -> None:
        if self._task is None:
            return
        task = self._progress.tasks[-1]
        total = task.total or max(task.completed, 1)
        self._progress.update(self._task, total=total, completed=total)


class _PlainLines:
    """A line when a stage begins: for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stage = ""

    def report(self, stage: str, _done: int, _total: int) -> None:
        if stage != self._stage:
            self._stage = stage
            self._console.print(stage, markup=False, highlight=False)
