"""What the demonstration prints: before and after per kind of request, what the daemon says of it, where to look."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agent.demo.bystander import Attendance
from agent.demo.driver import Record
from agent.demo.oracle import SHORT_MAX_TOKENS, Answer, Summary, summarise
from agent.demo.scenario import Kind

TITLES = {Kind.QUESTION: "everyday questions", Kind.STORY: "stories"}
MAX_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """Everything a demonstration found out."""

    update: Record
    before: Mapping[Kind, list[Answer]]
    """Audit answers of the version that served the log."""
    after: Mapping[Kind, list[Answer]]
    """Audit answers of the published version; empty when nothing was published."""
    seconds_to_publication: float
    """From the first request to the end of the update."""
    attendance: Attendance

    @property
    def published(self) -> bool:
        return bool(self.update["status"] == "published")


def print_outcome(console: Console, outcome: DemoOutcome) -> None:
    update = outcome.update
    console.print(f"\nupdate {update['id']}: [bold]{update['status']}[/bold]. {update.get('reason') or ''}")
    console.print(f"from the first request to here: {outcome.seconds_to_publication:.0f} s")
    _print_attendance(console, outcome.attendance)
    console.print(_audit_table(outcome))
    console.print(f"short: ended by itself within {SHORT_MAX_TOKENS} tokens", style="dim")
    if outcome.published:
        _print_examples(console, outcome)


def print_where_to_look(console: Console, data_dir: Path, interaction_id: str) -> None:
    console.print("\nLook further (start it again with the first line, in another terminal):")
    words = ("serve", "status", "reflections", "clusters", "updates", "versions", f"why {interaction_id}", "rollback 0")
    for word in words:
        console.print(f"  journeyman {word} --data-dir {data_dir}", highlight=False, soft_wrap=True)


def _print_attendance(console: Console, attendance: Attendance) -> None:
    versions = ", ".join(f"{count} by {version}" for version, count in attendance.answers_by_version.items())
    console.print(f"asked while it learned: {versions or 'nothing'}; lost: {len(attendance.failures)}")
    for line in attendance.failures[:MAX_EXAMPLES]:
        console.print(f"  {line}", markup=False)


def _audit_table(outcome: DemoOutcome) -> Table:
    table = Table(title="Audit: requests that were never served before, memory off", title_justify="left")
    table.add_column("kind", no_wrap=True)
    table.add_column("version", no_wrap=True)
    for name in ("answers", "short", "95 % interval", "mean tokens", "ended"):
        table.add_column(name, justify="right")
    for kind, title in TITLES.items():
        for answers in (outcome.before.get(kind), outcome.after.get(kind)):
            if answers:
                table.add_row(title, answers[0].model, *summary_cells(summarise(answers)))
    return table


def summary_cells(summary: Summary) -> tuple[str, str, str, str, str]:
    """Answers, share that is short, its interval, mean tokens, share that ended: as the tables show them."""
    low, high = summary.short_bounds
    return (
        str(summary.num_answers),
        f"{summary.short_share:.0%}",
        f"{low:.0%} to {high:.0%}",
        f"{summary.mean_tokens:.1f}",
        f"{summary.ended_share:.0%}",
    )


def _print_examples(console: Console, outcome: DemoOutcome) -> None:
    pairs = zip(outcome.before[Kind.QUESTION], outcome.after[Kind.QUESTION], strict=True)
    for before, after in list(pairs)[:MAX_EXAMPLES]:
        console.print(f"\n[bold]{before.prompt}[/bold]")
        for answer in (before, after):
            console.print(f"  {answer.model}: {' '.join(answer.text.split())}", markup=False)
