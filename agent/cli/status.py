"""`journeyman status`: is it running, is it well, what is it doing, what comes next."""

from collections.abc import Iterator

from agent.cli.connection import Record, connected
from agent.cli.display import STDOUT, age, print_facts, print_json, print_table, span
from agent.cli.failures import CommandFailed, ExitCode
from agent.cli.options import DataDirOption, JsonOption, chosen_data_dir


def status(*, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Show whether the daemon is well, what it is doing and what is due."""
    with connected(chosen_data_dir(data_dir)) as daemon:
        found: Record = daemon.get("/admin/status")
    if as_json:
        print_json(found)
    else:
        _print_status(found)
    if found["not_ready"] is not None:
        raise CommandFailed(f"not ready: {found['not_ready']}", code=ExitCode.NOT_READY)


def _print_status(found: Record) -> None:
    print_facts(dict(_facts(found)))
    print_table(
        "\nprocesses",
        ("name", "state", "pid", "restarts", "MB"),
        ((row["name"], row["state"], row["pid"], row["restarts"], row["rss_mb"]) for row in found["children"]),
        empty="",
    )
    STDOUT.print()


def _facts(found: Record) -> Iterator[tuple[str, object]]:
    yield "address", found["url"]
    yield "running", f"for {span(found['uptime_s'])}, pid {found['pid']}, {found['rss_mb']} MB"
    yield "live", f"{found['live_version']} on base {found['base_fingerprint']}"
    yield "requests", f"{found['requests_in_flight']} in flight"
    yield "stored", ", ".join(f"{count} {name}" for name, count in found["counts"].items())
    if found["memory_degraded"]:
        yield "memory", "degraded: recall is by words only until the embedder answers again"
    running = found["running"]
    if running is not None:
        yield running["kind"], f"{running['stage']} {running['done']}/{running['total']} ({running['id']})"
    if found["learning_paused"]:
        yield "learning", "paused: nothing runs on its own until `journeyman schedule resume`"
    for kind, due in found["next_due"].items():
        yield f"next {kind}", _next(due, **found["num_new"][kind])


def _next(due: str | None, *, interactions: int, due_at: int | None) -> str:
    """By time, by count, by both, or only when asked for."""
    reasons = [age(due)] if due else []
    if due_at is not None:
        reasons.append(f"after {due_at} interactions, {interactions} so far")
    return ", or ".join(reasons) or "when asked for"
