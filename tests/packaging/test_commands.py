"""The command line against a daemon's socket: what it asks, what it prints, how it exits."""

import io
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.api.records_json import record_json
from agent.cli.main import main
from tests.fakes_daemon import Answer, FakeDaemon
from tests.packaging.sample_records import CLUSTER, DONE_PASS, REFLECTION, UPDATE, VERSION, WHY


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Ended]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `journeyman WORDS --data-dir tmp_path`, with `typed` as what stands on standard input."""

    def run_command(*words: str, typed: str = "") -> Ended:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*words, "--data-dir", str(tmp_path)])
        said = capsys.readouterr()
        return Ended(int(ended.value.code or 0), said.out, said.err)

    return run_command


def _always(content: object, status: int = 200) -> Answer:
    return lambda _: (status, content)


def _data(records: Iterable[object], **more: object) -> Answer:
    return _always({"data": [{**record_json(record), **more} for record in records]})


def _events(*pieces: str) -> str:
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


STATUS: dict[str, Any] = {
    "url": "http://127.0.0.1:8700",
    "pid": 42,
    "ready": True,
    "not_ready": None,
    "uptime_s": 7300.0,
    "rss_mb": 120.5,
    "live_version": "policy@v3",
    "base_fingerprint": "feed",
    "children": [{"name": "engine", "pid": 43, "state": "ready", "restarts": 0, "rss_mb": 700.0}],
    "counts": {"interactions": 12, "feedback": 3, "clusters": 2, "versions": 4},
    "requests_in_flight": 1,
    "memory_degraded": False,
    "running": {"kind": "update", "id": "upd_1", "stage": "training", "done": 2, "total": 9},
    "learning_paused": False,
    "next_due": {"reflect": None, "update": None},
    "num_new": {
        "reflect": {"interactions": 12, "due_at": 200},
        "update": {"interactions": 12, "due_at": None},
    },
}


SCHEDULE: dict[str, Any] = {
    "paused": True,
    "data": [
        {
            "kind": "reflect",
            "enabled": True,
            "every": "",
            "cron": "0 3 * * mon",
            "after_interactions": 200,
            "after_negative": 0,
            "when_idle": "",
            "quiet_hours": "22:00-07:00",
            "timezone": "UTC",
            "max_duration": "6h",
            "changed": ["cron"],
            "last_at": None,
            "next_due_at": None,
            "due_because": "cron",
            "held_by": "quiet hours",
            "new_interactions": 12,
            "new_negative": 1,
        }
    ],
}


@pytest.mark.parametrize(
    ("words", "path", "answer", "expected"),
    [
        (
            ("status",),
            "/admin/status",
            _always(STATUS),
            ["policy@v3", "training 2/9", "for 2 h", "12 so far", "engine"],
        ),
        (("clusters",), "/admin/clusters", _data([CLUSTER]), ["clu_1", "what is, explain", "44", "7"]),
        (
            ("reflections",),
            "/admin/reflections",
            _data([REFLECTION]),
            ["0.20, mean over users", "10% to 35%", "Six of seven", "weights, 24", "too long (30)", "held out (16)"],
        ),
        (("updates",), "/admin/updates", _data([UPDATE]), ["upd_1", "published as policy@v3", "better on"]),
        (
            ("updates", "upd_1"),
            "/admin/updates/upd_1",
            _always({**record_json(UPDATE), "uses": [record_json(WHY.uses[0])]}),
            ["1 trained", "One short sentence", "published as policy@v3"],
        ),
        (
            ("versions",),
            "/admin/versions",
            _data([VERSION], name="policy@v3", live=True),
            ["live", "policy@v3", "upd_1", "abababababab"],
        ),
        (
            ("why", "int_1"),
            "/admin/why/int_1",
            _always({"answer": WHY.answer, **record_json(WHY)}),
            ["trained in update upd_1", "[bold]glacier[/bold]", "Too long!", "0.10", "One short sentence", "train"],
        ),
    ],
)
def test_what_is_read_is_shown(
    tmp_path: Path, run: Run, words: tuple[str, ...], path: str, *, answer: Answer, expected: list[str]
) -> None:
    """Each read prints what an operator asks about; with --json, the records themselves."""
    with FakeDaemon(tmp_path, {("GET", path): answer}):
        shown = run(*words)
        as_json = run(*words, "--json")
    assert shown.returncode == 0, shown.stderr
    assert [part for part in expected if part not in shown.stdout] == [], shown.stdout
    content: Any = answer({})[1]
    assert json.loads(as_json.stdout) == content.get("data", content)


def test_nothing_yet_is_said_in_words(tmp_path: Path, run: Run) -> None:
    """Empty lists tell what would fill them."""
    paths = {"clusters": "clusters", "reflections": "reflect now", "updates": "update now"}
    with FakeDaemon(tmp_path, {("GET", f"/admin/{path}"): _data([]) for path in paths}):
        for command, hint in paths.items():
            ended = run(command)
            assert ended.returncode == 0
            assert hint in ended.stdout


def test_no_daemon_is_exit_code_3(tmp_path: Path, run: Run) -> None:
    """Without daemon.json, or with one that a killed daemon left, nothing runs here."""
    ended = run("status")
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "journeyman serve" in ended.stderr
    address = {"pid": 1, "url": "http://127.0.0.1:1", "admin_socket": str(tmp_path / "gone.sock")}
    (tmp_path / "daemon.json").write_text(json.dumps(address))
    assert run("status").returncode == 3


def test_not_ready_is_exit_code_4(tmp_path: Path, run: Run) -> None:
    """A daemon that starts or drains says so, in status and to a chat."""
    busy = _always({"error": {"message": "The engine is starting."}}, status=503)
    starting = _always({**STATUS, "not_ready": "starting"})
    with FakeDaemon(tmp_path, {("GET", "/admin/status"): starting, ("POST", "/v1/chat/completions"): busy}):
        status, chat = run("status"), run("chat", "Hello")
    assert (status.returncode, chat.returncode) == (4, 4)
    assert "The engine is starting." in chat.stderr


def test_a_refusal_is_one_line_and_exit_code_1(tmp_path: Path, run: Run) -> None:
    """What the daemon says is repeated; there is no traceback."""
    with FakeDaemon(tmp_path, {}):
        ended = run("why", "int_9")
    assert (ended.returncode, ended.stderr) == (1, "journeyman: No /admin/why/int_9 here.\n")


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--nonsense"),
        ("rollback", "x"),
        ("feedback", "int_1"),
        ("dance",),
        ("schedule", "set", "reflect"),
        ("schedule", "set", "nightly", "--every", "6h"),
        ("schedule", "set", "reflect", "--after-negative", "some"),
    ],
)
def test_wrong_usage_is_exit_code_2(run: Run, words: tuple[str, ...]) -> None:
    """Unknown options, wrong types and missing words are usage errors."""
    assert run(*words).returncode == 2


@pytest.mark.parametrize(
    ("command", "start", "path", "expected"),
    [
        ("reflect", {"pass_id": "pass_1"}, "/admin/passes/pass_1", "pass_1 done: 60 interactions, 50 verdicts"),
        ("update", {"update_id": "upd_1"}, "/admin/updates/upd_1", "upd_1 published as policy@v3"),
    ],
)
def test_a_pass_is_waited_for(
    tmp_path: Path, run: Run, command: str, start: dict[str, str], path: str, *, expected: str
) -> None:
    """`now` starts a pass, tells its stages, and prints its end."""
    ended = record_json(DONE_PASS if command == "reflect" else UPDATE)
    asked = iter([{**ended, "status": "running", "stage": "judging", "done": 1, "total": 2}, ended])
    answers: dict[tuple[str, str], Answer] = {
        ("POST", f"/admin/{command}"): _always(start, status=202),
        ("GET", path): lambda _: (200, next(asked)),
    }
    with FakeDaemon(tmp_path, answers):
        done = run(command, "now")
    assert (done.returncode, "judging" in done.stderr) == (0, True), done.stderr
    assert expected in done.stdout


def test_a_failed_pass_is_an_error(tmp_path: Path, run: Run) -> None:
    """Scripts can tell by the exit code; the reason is printed."""
    failed = {**record_json(UPDATE), "status": "failed", "reason": "out of memory", "published_version": None}
    answers = {
        ("POST", "/admin/update"): _always({"update_id": "upd_1"}, status=202),
        ("GET", "/admin/updates/upd_1"): _always(failed),
    }
    with FakeDaemon(tmp_path, answers):
        ended = run("update", "now")
    assert ended.returncode == 1
    assert "upd_1 failed: out of memory" in ended.stderr


def test_feedback_and_rollback_send_what_was_said(tmp_path: Path, run: Run) -> None:
    """Only what was given is sent, under the field's own name."""
    answers = {
        ("POST", "/v1/feedback"): _always({"id": "fb_1", "interaction_id": "int_1"}),
        ("POST", "/admin/rollback"): _always({"name": "policy@v4"}),
    }
    with FakeDaemon(tmp_path, answers) as daemon:
        assert "fb_1 for int_1" in run("feedback", "int_1", "--score", "-1", "--comment", "Long").stdout
        assert "policy@v4 is live" in run("rollback", "2").stdout
    assert [body for _, _, body in daemon.asked] == [
        {"interaction_id": "int_1", "channel": "cli", "score": -1.0, "comment": "Long"},
        {"to": 2},
    ]


def test_the_schedule_is_shown_and_changed(tmp_path: Path, run: Run) -> None:
    """What was given is sent under the key's own name, what holds a pass is said, and abort names what runs."""
    answers = {
        ("GET", "/admin/schedule"): _always(SCHEDULE),
        ("POST", "/admin/schedule"): _always(SCHEDULE),
        ("GET", "/admin/status"): _always(STATUS),
        ("POST", "/admin/passes/upd_1/abort"): _always({"id": "upd_1", "kind": "update", "aborted": True}, status=202),
    }
    with FakeDaemon(tmp_path, answers) as daemon:
        shown = run("schedule").stdout
        assert json.loads(run("schedule", "--json").stdout) == SCHEDULE
        ended = [
            run("schedule", "set", "reflect", "--every", "6h", "--cron", "", "--no-enabled").returncode,
            run("schedule", "reset", "update", "quiet-hours").returncode,
            run("schedule", "pause").returncode,
            run("schedule", "resume").returncode,
            run("abort").returncode,
        ]
    assert ended == [0] * 5
    for part in ("paused", "0 3 * * mon (changed)", "22:00-07:00", "12 interactions, 1 critical", "quiet hours"):
        assert part in shown, shown
    assert [body for method, _, body in daemon.asked if method == "POST"][:4] == [
        {"kind": "reflect", "set": {"enabled": False, "every": "6h", "cron": ""}},
        {"kind": "update", "reset": ["quiet_hours"]},
        {"paused": True},
        {"paused": False},
    ]


def test_chat_streams_rates_and_keeps_its_history(tmp_path: Path, run: Run) -> None:
    """Answers appear as they come; /bad, /good and /fix are about the last one; the next turn has the history."""
    answers = {
        ("POST", "/v1/chat/completions"): _always(_events("A river ", "of [ice].")),
        ("POST", "/v1/feedback"): _always({"id": "fb_1", "interaction_id": "int_1"}),
    }
    typed = "/bad too early\nWhat is a glacier?\n/bad way too long\n/good\n/fix Ice.\n/what\nAnd a moraine?\n/quit\n"
    with FakeDaemon(tmp_path, answers) as daemon:
        ended = run("chat", "--model", "policy", typed=typed)
    assert ended.returncode == 0, ended.stderr
    assert "A river of [ice]." in ended.stdout
    assert "policy@v3" in ended.stderr
    chats = [body for _, path, body in daemon.asked if path == "/v1/chat/completions"]
    said = [body for _, path, body in daemon.asked if path == "/v1/feedback"]
    assert [message["role"] for message in chats[1]["messages"]] == ["user", "assistant", "user"]
    assert {chat["model"] for chat in chats} == {"policy"}
    about = {"interaction_id": "int_1", "channel": "cli"}
    assert said == [
        {**about, "score": -1.0, "comment": "way too long"},
        {**about, "score": 1.0},
        {**about, "score": -1.0, "correction": "Ice."},
    ]


def test_an_error_in_a_stream_is_told(tmp_path: Path, run: Run) -> None:
    """A stream that breaks off with an error event ends the command with its message."""
    broken = f"data: {json.dumps({'error': {'message': 'The engine is gone.'}})}\n\n"
    with FakeDaemon(tmp_path, {("POST", "/v1/chat/completions"): _always(broken)}):
        ended = run("chat", "Hello")
    assert (ended.returncode, "The engine is gone." in ended.stderr) == (1, True)


def test_a_wrong_configuration_keeps_the_daemon_from_starting(tmp_path: Path, run: Run) -> None:
    """`serve` ends with one line that names the key, before anything is fetched or written."""
    (tmp_path / "config.toml").write_text("[server]\nprot = 1\n")
    ended = run("serve")
    assert ended.returncode == 1
    assert ended.stderr == (
        f"journeyman: {tmp_path}/config.toml line 2: there is no key server.prot; did you mean server.port?\n"
    )


def test_the_command_is_a_program_of_its_own(tmp_path: Path) -> None:
    """Started as a process it prints, and exits with the code that scripts rely on."""
    command = [sys.executable, "-m", "agent.cli.main", "status", "--data-dir", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr.startswith("journeyman: no daemon is running")


def test_keys_without_a_daemon_are_made_on_its_store(run: Run) -> None:
    """Before the first start, so that an open address can be listened on at all."""
    assert "everybody on this machine" in run("keys").stdout
    made = run("keys", "add", "bot", "--scope", "harness", "--no-learn", "--requests-per-minute", "60")
    assert made.stdout.startswith("jm-")
    assert "shown only now" in made.stderr
    assert "already" in run("keys", "add", "bot").stderr
    listed = json.loads(run("keys", "--json").stdout)
    assert [(one["id"], one["scope"], one["learn"], one["requests_per_minute"]) for one in listed] == [
        ("bot", "harness", False, 60)
    ]
    assert run("keys", "revoke", "bot").stdout == "bot is revoked.\n"
    gone = run("keys", "revoke", "bot")
    assert (gone.returncode, gone.stderr) == (1, "journeyman: there is no key 'bot' in force\n")


def test_keys_are_asked_of_a_running_daemon(run: Run, tmp_path: Path) -> None:
    """What it makes is in force at once."""
    record = {"id": "bot", "scope": "user", "learn": True, "requests_per_minute": 0, "tokens_per_day": 0}
    answers = {
        ("POST", "/admin/keys"): _always({**record, "key": "jm-secret"}, 201),
        ("POST", "/admin/keys/bot/revoke"): _always(record),
    }
    with FakeDaemon(tmp_path, answers) as daemon:
        assert run("keys", "add", "bot", "--tokens-per-day", "5").stdout == "jm-secret\n"
        assert run("keys", "revoke", "bot").returncode == 0
        assert daemon.asked[0] == ("POST", "/admin/keys", {**record, "tokens_per_day": 5, "sha256": None})


def test_config_says_what_is_in_force_and_where_it_was_set(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file, the environment over it, and defaults for the rest."""
    (tmp_path / "config.toml").write_text('[server]\nport = 9000\nhost = "::1"\n', encoding="utf-8")
    monkeypatch.setenv("JOURNEYMAN_SERVER__PORT", "9001")
    changed = {row["name"]: row for row in json.loads(run("config", "show", "--changed", "--json").stdout)}
    assert {name: row["value"] for name, row in changed.items()} == {"server.port": 9001, "server.host": "::1"}
    assert changed["server.port"]["origin"] == "JOURNEYMAN_SERVER__PORT"
    assert changed["server.host"]["origin"].endswith("config.toml line 3")
    listed = run("config", "show", "--origin").stdout
    assert "policy.temperature" in listed
    assert "config.toml line 3" in listed
    assert run("config", "check").stdout.startswith("Good: 2 of ")


def test_config_check_names_what_is_wrong(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[server]\nprot = 1\n", encoding="utf-8")
    ended = run("config", "check")
    assert ended.returncode == 1
    assert "line 2: there is no key server.prot; did you mean server.port?" in ended.stderr


def test_a_store_that_never_served_is_not_backed_up(run: Run, tmp_path: Path) -> None:
    """Without a daemon the command works on the store itself; one without a version has nothing to come back to."""
    assert run("keys", "add", "bot").returncode == 0
    ended = run("backup", str(tmp_path.parent / f"{tmp_path.name}-backup"))
    assert ended.returncode == 1
    assert ended.stderr == "journeyman: there is nothing to back up: no version was ever live\n"


def test_a_systemd_unit_names_this_installation(run: Run, tmp_path: Path) -> None:
    """It can be piped into a file and enabled."""
    unit = run("unit").stdout
    assert f"serve --data-dir {tmp_path}\n" in unit
    assert {"Type=notify", "WatchdogSec=60", "KillMode=mixed"} <= set(unit.splitlines())


def test_the_doctor_examines_what_a_start_would_stumble_over(run: Run, tmp_path: Path) -> None:
    """An empty directory is no fault; a configuration that cannot be read and an address in use are."""
    found = {row["what"]: row for row in json.loads(run("doctor", "--json").stdout)}
    assert found["configuration"]["mark"] == "ok"
    assert found["daemon"] == {"mark": "warning", "what": "daemon", "seen": "none is running here"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "config.toml").write_text(f"[server]\nport = {port}\n", encoding="utf-8")
        ended = run("doctor")
        assert ended.returncode == 1
        assert f"127.0.0.1:{port} cannot be listened on" in ended.stdout
    (tmp_path / "config.toml").write_text("[server]\nprot = 1\n", encoding="utf-8")
    assert "did you mean server.port?" in run("doctor").stdout


def test_the_doctor_asks_a_running_daemon_for_an_answer(run: Run, tmp_path: Path) -> None:
    answers = {
        ("GET", "/admin/status"): _always(STATUS),
        ("POST", "/v1/chat/completions"): _always({"model": "policy@v3"}),
    }
    with FakeDaemon(tmp_path, answers):
        found = {row["what"]: row["seen"] for row in json.loads(run("doctor", "--json").stdout)}
    assert found["daemon"] == "http://127.0.0.1:8700, ready"
    assert found["an answer"] == "one token from policy@v3"
