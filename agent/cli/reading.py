"""Commands that show what the daemon knows: status, reflections, clusters, updates, versions, why."""

import json
from collections import Counter
from typing import Annotated

import typer

from agent.cli.connection import Record, connected
from agent.cli.display import STDOUT, age, excerpt, print_facts, print_json, print_table
from agent.cli.options import DataDirOption, JsonOption, LimitOption, chosen_data_dir

ClusterOption = Annotated[str | None, typer.Option("--cluster", help="Only this cluster, by its id.")]
PassOption = Annotated[str | None, typer.Option("--pass", help="Only this pass, by its id.")]


def reflections(
    *,
    cluster: ClusterOption = None,
    of_pass: PassOption = None,
    limit: LimitOption = 20,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show self-evaluations: one per cluster and pass, newest first."""
    with connected(chosen_data_dir(data_dir)) as daemon:
        answer = daemon.get("/admin/reflections", cluster=cluster, **{"pass": of_pass}, limit=limit)
    if as_json:
        print_json(answer["data"])
        return
    for reflection in answer["data"]:
        _print_reflection(reflection)
    if not answer["data"]:
        STDOUT.print("No reflections yet. They come with the clock, or with: journeyman reflect now")


def clusters(*, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Show the kinds of interactions."""
    with connected(chosen_data_dir(data_dir)) as daemon:
        rows = daemon.get("/admin/clusters")["data"]
    if as_json:
        print_json(rows)
        return
    print_table(
        "clusters",
        ("id", "label", "interactions", "users", "trend", "seen"),
        (
            (row["id"], row["label"], row["size"], row["num_principals"], _signed(row["trend"]), age(row["updated_at"]))
            for row in rows
        ),
        empty="No clusters yet. They are drawn by the first reflection pass that finds enough requests.",
    )


def updates(
    update_id: Annotated[str | None, typer.Argument(help="Show this update in full.")] = None,
    *,
    limit: LimitOption = 20,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show updates: how each ended, and why."""
    with connected(chosen_data_dir(data_dir)) as daemon:
        path = "/admin/updates" if update_id is None else f"/admin/updates/{update_id}"
        answer = daemon.get(path, limit=limit)
    if as_json:
        print_json(answer if update_id else answer["data"])
    elif update_id:
        _print_update(answer)
    else:
        print_table(
            "updates",
            ("id", "started", "trigger", "from", "end", "reason"),
            (
                (
                    row["id"],
                    age(row["started_at"]),
                    row["trigger"],
                    f"v{row['parent_version']}",
                    _update_end(row),
                    row["reason"],
                )
                for row in answer["data"]
            ),
            empty="No updates yet. They come with the clock, or with: journeyman update now",
        )


def versions(*, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Show the versions of the policy; the live one is marked."""
    with connected(chosen_data_dir(data_dir)) as daemon:
        rows = daemon.get("/admin/versions")["data"]
    if as_json:
        print_json(rows)
        return
    print_table(
        "versions",
        ("", "version", "from", "made by", "made", "sha256", "note"),
        (
            (
                "live" if row["live"] else "",
                row["name"],
                "" if row["parent"] is None else f"v{row['parent']}",
                row["update_id"]
                or (f"rollback to v{row['copied_from']}" if row["copied_from"] is not None else "base"),
                age(row["created_at"]),
                (row["sha256"] or "")[:12],
                row["note"],
            )
            for row in rows
        ),
        empty="No versions yet.",
    )


def why(
    interaction: Annotated[str, typer.Argument(help="Id of the interaction, as in X-Interaction-Id.")],
    *,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why an interaction was, or was not, trained on."""
    with connected(chosen_data_dir(data_dir)) as daemon:
        found = daemon.get(f"/admin/why/{interaction}")
    if as_json:
        print_json(found)
        return
    STDOUT.print(found["answer"], style="bold", markup=False)
    _print_interaction(found)
    _print_chain(found)


def _score(score: float | None) -> str:
    return "unknown" if score is None else f"{score:.2f}"


def _bounds(low: float | None, high: float | None) -> str:
    return "unknown" if low is None or high is None else f"{low:.0%} to {high:.0%}"


def _print_reflection(row: Record) -> None:
    STDOUT.print(f"\n{row['label']}", style="bold", markup=False, end="  ")
    STDOUT.print(f"{row['cluster_id']}, {age(row['created_at'])}", style="dim")
    judged = f"{row['num_judged']} of {row['num_interactions']} judged, {row['num_principals']} users"
    print_facts(
        {
            "score": f"{_score(row['score'])}, mean over users ({judged})",
            "good": f"{_bounds(row['score_low'], row['score_high'])} of the judged answers (95 % bounds)",
            "diagnosis": row["diagnosis"],
            "remedy": f"{row['remedy']}, {row['num_proposed']} examples proposed",
            "failures": "; ".join(f"{mode['label']} ({mode['count']})" for mode in row["failure_modes"]),
            "left out": "; ".join(f"{reason} ({count})" for reason, count in row["left_out"]),
            "pass": row["pass_id"],
        }
    )


def _print_update(row: Record) -> None:
    roles = Counter(use["role"] for use in row.get("uses", ()))
    print_facts(
        {
            "update": row["id"],
            "started": f"{row['started_at']} ({row['trigger']})",
            "ended": row["ended_at"],
            "end": _update_end(row),
            "reason": row["reason"],
            "interactions": ", ".join(f"{count} {role}" for role, count in sorted(roles.items())),
        }
    )
    for part in ("plan", "metrics", "scorecard"):
        content = json.loads(row[f"{part}_json"])
        if content:
            STDOUT.print(f"\n{part}", style="bold")
            STDOUT.print_json(data=content)


def _print_interaction(found: Record) -> None:
    row = found["interaction"]
    asked = next((one["content"] for one in reversed(row["messages"]) if one["role"] == "user"), "")
    print_facts(
        {
            "interaction": f"{row['id']}  {row['created_at']}",
            "user": row["principal"],
            "asked": excerpt(asked),
            "answered": f"{excerpt(row['text'])}  ({len(row['token_ids'])} tokens, policy@v{row['policy_version']})",
            "next turn": found["next_turn_id"],
        }
    )


def _print_chain(found: Record) -> None:
    """From words to weights, as far as it goes."""
    for row in found["feedback"]:
        words = row["comment"] or row["correction"] or ""
        print_facts({"feedback": f"{row['score']}  {excerpt(words)}  ({row['channel']})"})
    for row in found["evidence"]:
        print_facts({"evidence": f"{row['kind']} {row['score']}  {excerpt(row['text'] or row['correction'] or '')}"})
    judgement = found["judgement"] or {}
    assignment = found["assignment"] or {}
    cluster = found["cluster"] or {}
    print_facts(
        {
            "verdict": f"{judgement['score']:.2f}  {'; '.join(judgement['reasons'])}" if "score" in judgement else None,
            "abstention": judgement.get("reason"),
            "hint": judgement.get("hint"),
            "cluster": f"{cluster['label']}  {cluster['id']}" if cluster else None,
            "split": assignment.get("split"),
        }
    )
    for row in found["uses"]:
        print_facts({row["role"]: f"{row['update_id']}  {row['reason']}  (weight {row['weight']:g})"})


def _update_end(row: Record) -> str:
    if row["published_version"] is not None:
        return f"{row['status']} as policy@v{row['published_version']}"
    return str(row["status"])


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"
