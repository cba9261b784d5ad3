"""Does a data directory of an older release open here with nothing lost, and does a backup answer as its original?

The older release is a commit of this repository, run from its own sources: it serves people, reflects and stops. This
release opens what it left, is backed up by command while people ask, and the backup is restored elsewhere.

`SABOTAGE=lost_row` deletes one piece of feedback before this release opens the directory. `QUICK=1` serves fewer.
"""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp

from agent.demo.daemon_process import QUIET_CLOCK, DaemonFailed, running_daemon
from agent.demo.driver import DaemonClient, reflect, serve_log
from agent.demo.scenario import audit_items, make_scenario
from benchmarks.common import QUICK, Figure, finish, print_table, sabotage
from memory.migrating import HEAD
from memory.store import FILE_NAME

ROOT = Path(__file__).parent.parent
OLD_COMMIT = "0420c01"
"""The last with the first schema."""
NUM_QUESTIONS, NUM_STORIES = (8, 4) if QUICK else (24, 12)
NUM_GREEDY = 6
AT_ONCE = 16
LISTS = ("interactions", "passes", "reflections", "clusters", "updates", "versions")

Dump = dict[str, list[dict[str, Any]]]
Row = tuple[str, str, bool]


def main() -> int:
    started = time.perf_counter()
    broken = sabotage(("lost_row",)) is not None
    with tempfile.TemporaryDirectory(prefix="upgrade-") as folder, old_sources(Path(folder) / "old") as sources:
        rows = asyncio.run(_run(Path(folder), sources, broken=broken))
    print_table(
        "From one release to the next, and from one place to another",
        ("", "seen", ""),
        [(*row[:2], "ok" if row[2] else "NO") for row in rows],
    )
    wrong = [name for name, _, ok in rows if not ok]
    figure = Figure(
        name="upgrade",
        value=float(len(wrong)),
        target="0 things lost or changed",
        ok=not wrong,
        details={"old_commit": OLD_COMMIT, "checks": {name: seen for name, seen, _ in rows}, "wrong": wrong},
    )
    return finish(figure, started=started)


@contextmanager
def old_sources(folder: Path) -> Iterator[Path]:
    """The older release's files, as git has them."""
    subprocess.run(
        ["git", "-C", str(ROOT), "worktree", "add", "--detach", str(folder), OLD_COMMIT],
        check=True,
        capture_output=True,
    )
    try:
        yield folder
    finally:
        subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(folder)], check=True)


async def _run(folder: Path, sources: Path, *, broken: bool) -> list[Row]:
    data_dir, backup, elsewhere = folder / "data", folder / "backup", folder / "elsewhere"
    old = await _served_by_the_old_release(data_dir, sources)
    if broken:
        with sqlite3.connect(data_dir / FILE_NAME) as connection:
            connection.execute("DELETE FROM feedback WHERE seq = (SELECT max(seq) FROM feedback)")
    rows: list[Row] = []
    async with running_daemon(data_dir) as daemon:
        async with DaemonClient(daemon.url) as client:
            new = await _dump(client, data_dir)
            rows += _compare("after the upgrade", old, new)
            said, num_during = await _back_up_under_load(client, data_dir, backup)
        answers = await _greedy(daemon.url)
    rows.append(
        (
            "a copy of the old database lies beside",
            f"{FILE_NAME}.before-{HEAD}",
            (data_dir / f"{FILE_NAME}.before-{HEAD}").is_file(),
        )
    )
    rows.append(("chats answered while it was backed up", f"{num_during}; {said}", num_during > 0))
    _command("restore", str(backup), "--data-dir", str(elsewhere))
    async with running_daemon(elsewhere) as daemon:
        async with DaemonClient(daemon.url) as client:
            restored = await _dump(client, elsewhere)
            rows += _compare("after the restore, of what was there before", new, restored)
        same = sum(ours == theirs for ours, theirs in zip(answers, await _greedy(daemon.url), strict=True))
    rows.append(("greedy answers that are the same", f"{same} of {len(answers)}", same == len(answers)))
    rows.append(await _refuses_a_newer_schema(elsewhere, folder / "newer"))
    return rows


async def _served_by_the_old_release(data_dir: Path, sources: Path) -> Dump:
    settings = {**QUIET_CLOCK, "PYTHONPATH": str(sources)}
    command = (sys.executable, "-P", "-m", "agent.cli.main")  # -P: not from the working directory
    async with (
        running_daemon(data_dir, settings=settings, command=command) as daemon,
        DaemonClient(daemon.url) as client,
    ):
        await serve_log(client, make_scenario(0, num_questions=NUM_QUESTIONS, num_stories=NUM_STORIES))
        await reflect(client)
        return await _dump(client, data_dir)


async def _dump(client: DaemonClient, data_dir: Path) -> Dump:
    """Everything that /admin shows, whole, and the feedback from the file."""
    found: Dump = {}
    for name in LISTS:
        found[name] = (await client.get(f"/admin/{name}?limit=1000"))["data"]
    found["interactions"] = [await client.get(f"/admin/interactions/{row['id']}") for row in found["interactions"]]
    with sqlite3.connect(f"file:{data_dir / FILE_NAME}?mode=ro", uri=True) as connection:
        connection.row_factory = sqlite3.Row
        found["feedback"] = [dict(row) for row in connection.execute("SELECT * FROM feedback ORDER BY seq")]
    return found


def _compare(when: str, before: Dump, after: Dump) -> list[Row]:
    """Every record of before is there after, as it was."""
    rows = []
    for name, records in before.items():
        later = [str(sorted(record.items())) for record in after[name]]
        kept = sum(str(sorted(record.items())) in later for record in records)
        rows.append((f"{name} {when}", f"{kept} of {len(records)}", kept == len(records)))
    return rows


async def _back_up_under_load(client: DaemonClient, data_dir: Path, backup: Path) -> tuple[str, int]:
    """What the command said, and how many chats were answered until it was done."""
    done = 0

    async def keep_asking(number: int) -> None:
        nonlocal done
        for turn in range(1000):
            question = [{"role": "user", "content": audit_items().questions[(number + turn) % 20]}]
            await client.chat(question, model="policy", seed=turn, max_tokens=8, user=f"p{number}")
            done += 1

    asking = [asyncio.create_task(keep_asking(number)) for number in range(AT_ONCE)]
    await asyncio.sleep(1)
    said = await asyncio.to_thread(_command, "backup", str(backup), "--data-dir", str(data_dir))
    failures = [task.exception() for task in asking if task.done()]
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    return (said if not failures else f"{failures[0]!r}"), 0 if failures else done


def _command(*words: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "agent.cli.main", *words], check=False, capture_output=True, text=True
    )
    if ended.returncode:
        raise RuntimeError(f"journeyman {words[0]}: {ended.stderr}")
    return ended.stdout.split(" in ")[0].strip()


async def _greedy(url: str) -> list[str]:
    answers = []
    async with aiohttp.ClientSession() as session:
        for question in audit_items().questions[:NUM_GREEDY]:
            body: Mapping[str, Any] = {
                "model": "policy",
                "messages": [{"role": "user", "content": question}],
                "temperature": 0,
                "max_tokens": 32,
                "store": False,
            }
            async with session.post(f"{url}/v1/chat/completions", json=body) as response:
                answers.append((await response.json())["choices"][0]["message"]["content"])
    return answers


async def _refuses_a_newer_schema(data_dir: Path, copy: Path) -> Row:
    await asyncio.to_thread(shutil.copytree, data_dir, copy, ignore=shutil.ignore_patterns("run", "lock"))
    with sqlite3.connect(copy / FILE_NAME) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    try:
        async with running_daemon(copy):
            return ("a newer schema", "opened", False)
    except DaemonFailed as failure:
        said = str(failure).splitlines()[-1]
        return ("a newer schema", said[-70:], "newer release" in said and "Traceback" not in str(failure))


if __name__ == "__main__":
    sys.exit(main())
