"""Does anything that people or programs can send, write or type bring out a 500, a traceback or a riddle?

At least 5,000 cases against a real daemon: every field of every body at its edges, JSON of every kind of malformation,
headers, queries, bytes that are no HTTP, every key of the configuration, command lines. A refusal has to name what is
wrong where one thing is. Afterwards the daemon answers as before, has logged no traceback and grew by little.

`SABOTAGE=loose_json` reads bodies with the standard library's reader as it is. `QUICK=1` takes fewer random changes.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import aiohttp
import psutil
from yarl import URL

from agent.demo.daemon_process import SERVE, RunningDaemon, running_daemon
from agent.keys import KeyRing, make_key
from benchmarks.common import QUICK, Figure, finish, print_table, sabotage
from benchmarks.hostile.cases import BROKEN, REFUSED, TAKEN, UNNAMED, Case, Verdict
from benchmarks.hostile.raw_bytes import raw_verdicts
from benchmarks.hostile.requests import CHAT_PATH, GOOD_CHAT, field_cases, header_cases, json_cases, query_cases
from benchmarks.hostile.settings import settings_verdicts
from benchmarks.hostile.words import words_verdicts
from memory.records import utc_now
from memory.states import Scope
from memory.store import open_store

LOOSE = "import json; from agent.api import json_body; json_body.parse_json = json.loads"
LOOSE_JSON = (sys.executable, "-c", f"{LOOSE}; from agent.cli.main import main; main()")
MIN_CASES = 1000 if QUICK else 5000
NUM_RANDOM = 50 if QUICK else 250
MAX_GROWTH_MB = 50.0
AT_ONCE = 16
MAX_SHOWN = 12
MAX_SAID = 300

Row = tuple[str, str, bool]


def main() -> int:
    started = time.perf_counter()
    broken = sabotage(("loose_json",))
    with tempfile.TemporaryDirectory(prefix="bad-input-") as folder:
        verdicts, after = asyncio.run(_run(Path(folder), LOOSE_JSON if broken else SERVE))
    wrong = [verdict for verdict in verdicts if not verdict.ok]
    _print(verdicts, wrong, after)
    is_enough = len(verdicts) >= MIN_CASES
    figure = Figure(
        name="bad_input",
        value=float(len(wrong)),
        target=f"0 of at least {MIN_CASES} cases ended in a 500, a traceback or a refusal that names nothing",
        ok=is_enough and not wrong and all(ok for _, _, ok in after),
        details={
            "cases": len(verdicts),
            "outcomes": dict(Counter(verdict.outcome for verdict in verdicts)),
            "wrong": [f"{one.area}: {one.name}: {one.outcome}: {one.message}"[:300] for one in wrong[:MAX_SHOWN]],
            "afterwards": {name: seen for name, seen, _ in after},
        },
    )
    return finish(figure, started=started)


async def _run(folder: Path, command: Sequence[str]) -> tuple[list[Verdict], list[Row]]:
    key = await _make_key(folder / "data")
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    async with running_daemon(folder / "data", command=command) as daemon:
        memory = psutil.Process(daemon.pid)
        await _ask(daemon, headers, [Case(area="", name="", path=CHAT_PATH, body=json.dumps(GOOD_CHAT).encode())] * 50)
        before_mb = memory.memory_info().rss / 2**20
        cases = [*field_cases(), *json_cases(num_random=NUM_RANDOM), *header_cases(), *query_cases()]
        verdicts = await _ask(daemon, headers, cases)
        verdicts += await raw_verdicts(daemon.url, key=key)
        grown_mb = memory.memory_info().rss / 2**20 - before_mb
        verdicts += words_verdicts(daemon.data_dir)
        after = await _afterwards(daemon, headers, grown_mb)
    verdicts += settings_verdicts(folder, num_random=NUM_RANDOM)
    return verdicts, after


async def _make_key(data_dir: Path) -> str:
    """An admin's, so that every case gets as far as it can, and a key that a case makes shuts nobody out."""
    async with open_store(data_dir) as store:
        ring = KeyRing(store, now=utc_now)
        key, token = make_key("benchmark", scope=Scope.ADMIN, now=utc_now())
        await ring.add(key)
    return token or ""


async def _ask(daemon: RunningDaemon, headers: Mapping[str, str], cases: Iterable[Case]) -> list[Verdict]:
    place = asyncio.Semaphore(AT_ONCE)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:

        async def ask(case: Case) -> Verdict:
            async with place:
                return await _judge(session, daemon.url, headers, case)

        return list(await asyncio.gather(*(ask(case) for case in cases)))


async def _judge(session: aiohttp.ClientSession, url: str, headers: Mapping[str, str], case: Case) -> Verdict:
    try:
        async with session.request(
            case.method, URL(f"{url}{case.path}", encoded=True), data=case.body, headers={**headers, **case.headers}
        ) as response:
            return judge_answer(case, response.status, await response.read())
    except (ValueError, aiohttp.InvalidURL) as problem:  # this client will not send it; raw_bytes.py does
        return Verdict(area=case.area, name=case.name, outcome=REFUSED, message=f"not sent: {problem}")
    except (aiohttp.ClientError, TimeoutError) as problem:
        return Verdict(area=case.area, name=case.name, outcome=BROKEN, message=repr(problem))


def judge_answer(case: Case, status: int, body: bytes) -> Verdict:
    """Whether an answer is a good one to this case."""
    text = body.decode("utf-8", "replace")
    if status >= 500 or "Traceback" in text:
        return Verdict(area=case.area, name=case.name, outcome=BROKEN, message=f"{status}: {text[:200]}")
    if status < 400:
        return Verdict(area=case.area, name=case.name, outcome=TAKEN)
    if case.method == "HEAD":
        return Verdict(area=case.area, name=case.name, outcome=REFUSED)
    try:
        error = json.loads(text)["error"]
        said = f"{error['param'] or ''} {error['message']}"
    except (ValueError, KeyError, TypeError):
        return Verdict(area=case.area, name=case.name, outcome=UNNAMED, message=f"{status}: {text[:200]}")
    is_named = bool(error["message"]) and (status != 400 or case.named is None or case.named in said)
    return Verdict(
        area=case.area, name=case.name, outcome=REFUSED if is_named else UNNAMED, message=f"{status}: {said}"
    )


async def _afterwards(
    daemon: RunningDaemon, headers: Mapping[str, str], grown_mb: float
) -> list[tuple[str, str, bool]]:
    """The daemon as it is after all that."""
    async with aiohttp.request("POST", f"{daemon.url}{CHAT_PATH}", json=GOOD_CHAT, headers=headers) as response:
        status = response.status
    log = daemon.log_path.read_text(encoding="utf-8", errors="replace")
    num_tracebacks = log.count("Traceback") + log.count("request failed")
    return [
        ("a good chat is answered", str(status), status == 200),
        ("tracebacks in the log", f"{num_tracebacks} {_first_trace(log)}".strip(), num_tracebacks == 0),
        ("the daemon grew by, MB", f"{grown_mb:.0f}", grown_mb <= MAX_GROWTH_MB),
    ]


def _first_trace(log: str) -> str:
    """The end of the first line that speaks of one: structured logs carry the whole trace in it."""
    return next((line[-MAX_SAID:] for line in log.splitlines() if "Traceback" in line or "request failed" in line), "")


def _print(verdicts: Sequence[Verdict], wrong: Sequence[Verdict], after: Sequence[Row]) -> None:
    outcomes = (TAKEN, REFUSED, UNNAMED, BROKEN)
    areas = dict.fromkeys(verdict.area for verdict in verdicts)
    counts = Counter((verdict.area, verdict.outcome) for verdict in verdicts)
    rows = [(area, *(counts[area, outcome] for outcome in outcomes)) for area in areas]
    print_table("What became of the cases", ("area", *outcomes), rows)
    if wrong:
        rows = [(one.area, one.name[:60], one.outcome, one.message[:120]) for one in wrong[:MAX_SHOWN]]
        print_table("Wrong", ("area", "case", "outcome", "said"), rows)
    print_table("Afterwards", ("", "seen", ""), [(name, seen, "ok" if ok else "NO") for name, seen, ok in after])


if __name__ == "__main__":
    sys.exit(main())
