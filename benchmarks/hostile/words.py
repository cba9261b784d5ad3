"""Command lines with something wrong, by the real entry point against a running daemon."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from agent.cli.main import main
from benchmarks.hostile.cases import BROKEN, REFUSED, TAKEN, UNNAMED, Verdict

BAD = (
    "",
    " ",
    "-1",
    "0",
    "1e9",
    "nan",
    "\u202e",
    "x" * 3000,
    "../../etc/passwd",
    "'; --",
    "--",
    "99999999999999999999",
)
NUMBERS = (("reflections", "--limit"), ("updates", "--limit"), ("feedback", "nothing", "--score"), ("rollback",))
TEXTS = (
    ("updates",),
    ("why",),
    ("feedback",),
    ("schedule",),
    ("schedule", "set"),
    ("schedule", "reset"),
    ("schedule", "set", "reflect", "--every"),
    ("schedule", "set", "reflect", "--cron"),
    ("schedule", "set", "reflect", "--timezone"),
    ("schedule", "set", "reflect", "--quiet-hours"),
    ("schedule", "set", "update", "--when-idle"),
    ("schedule", "set", "update", "--max-duration"),
    ("schedule", "set", "update", "--after-interactions"),
    ("schedule", "reset", "reflect"),
    ("keys", "revoke"),
    ("keys", "add", "local", "--scope"),
    ("keys", "add", "local", "--sha256"),
    ("keys", "add", "local", "--tokens-per-day"),
    ("serve", "--port"),
    ("serve", "--host", "127.0.0.1", "--config"),
    ("reflect",),
    ("update",),
    ("nonsense",),
)


def words_verdicts(data_dir: Path) -> Iterator[Verdict]:
    """One verdict a command line. They change nothing that lasts but schedules, which are reset at the end."""
    os.environ["JOURNEYMAN_DATA_DIR"] = str(data_dir)
    for words in (*NUMBERS, *TEXTS):
        for value in BAD:
            yield _judge([*words, value])
        yield _judge([*words, "--no-such-option"])
    for kind in ("reflect", "update"):
        yield _judge(["schedule", "reset", kind])


def _judge(words: list[str]) -> Verdict:
    name = " ".join(word[:30] for word in words)
    try:
        # A second `serve` on the same directory is refused, but only after it has started its own event loop.
        code, said = _run_process(words) if words[0] == "serve" else _run_here(words)
    except BaseException as problem:  # noqa: BLE001 - that there is no other is what this asks
        return Verdict(area="command line", name=name, outcome=BROKEN, message=repr(problem))
    if "Traceback" in said:
        return Verdict(area="command line", name=name, outcome=BROKEN, message=said[-300:])
    if code == 0:
        return Verdict(area="command line", name=name, outcome=TAKEN)
    is_said = code in {1, 2, 3, 4} and bool(said.strip())
    return Verdict(area="command line", name=name, outcome=REFUSED if is_said else UNNAMED, message=said[-300:])


def _run_here(words: list[str]) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as ended:
            code = ended.code
    return (code if isinstance(code, int) else 0 if code is None else 1), out.getvalue() + err.getvalue()


def _run_process(words: list[str]) -> tuple[int, str]:
    command = [sys.executable, "-m", "agent.cli.main", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
    return ended.returncode, ended.stdout + ended.stderr
