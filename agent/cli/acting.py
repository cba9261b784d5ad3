"""Commands that ask the daemon to do something: feedback, reflect now, update now, rollback."""

import time
from typing import Annotated

import typer

from agent.cli.connection import Connection, Record, connected
from agent.cli.display import STDERR, STDOUT, print_json
from agent.cli.failures import CommandFailed
from agent.cli.options import DataDirOption, JsonOption, chosen_data_dir
from agent.cli.progress import progress_bar

_POLL_INTERVAL_S = 0.5

reflect_app = typer.Typer(help="Look back over what was served.", no_args_is_help=True)
update_app = typer.Typer(help="Turn what reflection proposed into weights.", no_args_is_help=True)


def feedback(
    interaction: Annotated[str, typer.Argument(help="Id of the interaction, as in X-Interaction-Id.")],
    *,
    score: Annotated[float | None, typer.Option(min=-1, max=1, help="From -1 (bad) to 1 (good).")] = None,
    comment: Annotated[str | None, typer.Option(help="What was good or bad, in words.")] = None,
    correction: Annotated[str | None, typer.Option(help="The answer that should have been given.")] = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what you think of an answer."""
    said = {"score": score, "comment": comment, "correction": correction}
    given = {name: value for name, value in said.items() if value is not None}
    if not given:
        raise typer.BadParameter("give --score, --comment or --correction")
    with connected(chosen_data_dir(data_dir)) as daemon:
        stored = daemon.post("/v1/feedback", {"interaction_id": interaction, "channel": "cli", **given})
    if as_json:
        print_json(stored)
    else:
        STDOUT.print(f"{stored['id']} for {stored['interaction_id']}")


@reflect_app.command("now")
def reflect_now(*, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Run a reflection pass and wait for its end."""
    with connected(chosen_data_dir(data_dir)) as daemon:
        started = daemon.post("/admin/reflect")
        ended = _wait_for_end(daemon, f"/admin/passes/{started['pass_id']}")
    if as_json:
        print_json(ended)
    else:
        counts = f"{ended['num_interactions']} interactions, {ended['num_verdicts']} verdicts"
        STDOUT.print(f"{ended['id']} {ended['status']}: {counts}, {ended['num_abstentions']} abstentions")
        STDOUT.print("See: journeyman reflections")
    _require_good_end(ended)


@update_app.command("now")
def update_now(*, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Run an update and wait for its end."""
    with connected(chosen_data_dir(data_dir)) as daemon:
        started = daemon.post("/admin/update")
        ended = _wait_for_end(daemon, f"/admin/updates/{started['update_id']}")
    if as_json:
        print_json(ended)
    else:
        version = ended["published_version"]
        what = ended["status"] if version is None else f"published as policy@v{version}"
        STDOUT.print(f"{ended['id']} {what}: {ended['reason'] or ''}".rstrip(": "), markup=False)
        STDOUT.print(f"See: journeyman updates {ended['id']}")
    _require_good_end(ended)


def rollback(
    to: Annotated[int, typer.Argument(min=0, help="N of the policy@vN whose bytes are to be live again.")],
    *,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish an old version's bytes under a new number."""
    with connected(chosen_data_dir(data_dir)) as daemon:
        version = daemon.post("/admin/rollback", {"to": to})
    if as_json:
        print_json(version)
    else:
        STDOUT.print(f"{version['name']} is live with the weights of policy@v{to}")


def _wait_for_end(daemon: Connection, path: str) -> Record:
    """Ask until it has ended, with a bar a stage."""
    with progress_bar(STDERR) as report:
        while True:
            record: Record = daemon.get(path)
            if record["status"] != "running":
                return record
            report(record.get("stage") or "running", record.get("done") or 0, record.get("total") or 0)
            time.sleep(_POLL_INTERVAL_S)


def _require_good_end(ended: Record) -> None:
    """Skipped and rejected are answers; failed is an error."""
    if ended["status"] == "failed":
        raise CommandFailed(f"{ended['id']} failed: {ended['reason']}")
