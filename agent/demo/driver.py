"""The people at the keyboard: serves a scenario to a daemon and audits a version, by HTTP only.

Knows routes and headers, not what a good answer is (agent/demo/oracle.py) nor how a daemon is started
(agent/demo/daemon_process.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp

from agent.demo.oracle import Answer
from agent.demo.scenario import Channel, Scenario, Visit

TEMPERATURE = 0.7
MAX_TOKENS = 64
FOLLOW_UP_MAX_TOKENS = 8
"""The answer to a reaction is not looked at; it only has to exist, as it would for a person."""
CONCURRENCY = 24
POLL_INTERVAL_S = 1.0
REQUEST_TIMEOUT_S = 600.0

R = TypeVar("R")
Record = Mapping[str, Any]
"""A record of the store as /admin shows it."""
OnProgress = Callable[[str, int, int], None]
"""Called with a stage, how much is done, and of how much."""


class DaemonRefused(RuntimeError):
    """The daemon answered with an error; the message carries status and body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One completion as the client saw it."""

    text: str
    finish_reason: str
    num_tokens: int
    model: str
    interaction_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedVisit:
    visit: Visit
    interaction_id: str


class DaemonClient:
    """The routes that the demonstration uses. Close it, or use it as an async context manager."""

    def __init__(self, url: str, *, api_key: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._session = aiohttp.ClientSession(
            base_url=url,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
            connector=aiohttp.TCPConnector(limit=0),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        model: str,
        seed: int,
        max_tokens: int,
        user: str,
        session_id: str | None = None,
        store: bool = True,
    ) -> Reply:
        body = {
            "model": model,
            "messages": list(messages),
            "temperature": TEMPERATURE,
            "max_tokens": max_tokens,
            "seed": seed,
            "user": user,
            "store": store,
        }
        headers = {"X-Session-Id": session_id} if session_id else {}
        async with self._session.post("/v1/chat/completions", json=body, headers=headers) as response:
            answer = await _checked(response)
            choice = answer["choices"][0]
            return Reply(
                text=choice["message"]["content"] or "",
                finish_reason=choice["finish_reason"],
                num_tokens=answer["usage"]["completion_tokens"],
                model=answer["model"],
                interaction_id=response.headers["X-Interaction-Id"],
            )

    async def feedback(self, interaction_id: str, *, score: float, comment: str, user: str) -> None:
        body = {"interaction_id": interaction_id, "score": score, "comment": comment, "user": user}
        await self.post("/v1/feedback", body)

    async def get(self, path: str) -> Any:
        async with self._session.get(path) as response:
            return await _checked(response)

    async def post(self, path: str, body: Record | None = None) -> Any:
        async with self._session.post(path, json=dict(body or {})) as response:
            return await _checked(response)


async def serve_log(
    client: DaemonClient, scenario: Scenario, *, on_progress: OnProgress | None = None
) -> list[ServedVisit]:
    """Serve every visit of the scenario, reactions included, two dozen people at a time."""

    async def serve(visit: Visit) -> ServedVisit:
        return await _serve_visit(client, visit)

    return await _gather_bounded([partial(serve, visit) for visit in scenario.visits], "serving", on_progress)


async def measure(
    client: DaemonClient,
    model: str,
    prompts: Sequence[str],
    *,
    samples: int,
    seed: int,
    max_tokens: int = MAX_TOKENS,
    user: str = "auditor",
    stage: str = "auditing",
    on_progress: OnProgress | None = None,
) -> list[Answer]:
    """Ask every prompt `samples` times of `model`, each in a session of its own, kept out of learning."""

    async def ask(job: tuple[str, int]) -> Answer:
        prompt, draw = job
        message = {"role": "user", "content": prompt}
        reply = await client.chat([message], model=model, seed=draw, max_tokens=max_tokens, user=user, store=False)
        return Answer(
            prompt=prompt,
            text=reply.text,
            num_tokens=reply.num_tokens,
            ended=reply.finish_reason == "stop",
            model=reply.model,
            interaction_id=reply.interaction_id,
        )

    jobs = [(prompt, seed + index * samples + k) for index, prompt in enumerate(prompts) for k in range(samples)]
    return await _gather_bounded([partial(ask, job) for job in jobs], stage, on_progress)


async def reflect(client: DaemonClient, *, on_progress: OnProgress | None = None) -> Record:
    """Run one reflection pass to its end and give its record."""
    started = await client.post("/admin/reflect")
    return await _wait_for_end(client, f"/admin/passes/{started['pass_id']}", "reflecting", on_progress)


async def update(client: DaemonClient, *, on_progress: OnProgress | None = None) -> Record:
    """Run one update to its one end and give its record."""
    started = await client.post("/admin/update")
    return await _wait_for_end(client, f"/admin/updates/{started['update_id']}", "updating", on_progress)


async def _serve_visit(client: DaemonClient, visit: Visit) -> ServedVisit:
    question = {"role": "user", "content": visit.prompt}
    reply = await client.chat(
        [question],
        model="policy",
        seed=visit.seed,
        max_tokens=MAX_TOKENS,
        user=visit.user,
        session_id=visit.session_id,
    )
    if visit.channel is Channel.FEEDBACK:
        await client.feedback(reply.interaction_id, score=1.0, comment=visit.reaction, user=visit.user)
    else:
        answer = {"role": "assistant", "content": reply.text}
        await client.chat(
            [question, answer, {"role": "user", "content": visit.reaction}],
            model="policy",
            seed=visit.seed + 1,
            max_tokens=FOLLOW_UP_MAX_TOKENS,
            user=visit.user,
            session_id=visit.session_id,
        )
    return ServedVisit(visit=visit, interaction_id=reply.interaction_id)


async def _wait_for_end(client: DaemonClient, path: str, word: str, on_progress: OnProgress | None) -> Record:
    while True:
        record: Record = await client.get(path)
        if record["status"] != "running":
            return record
        if on_progress is not None:
            stage, done, total = _stage_of(await client.get("/admin/status"))
            on_progress(f"{word}: {stage}" if total else word, done, total)
        await asyncio.sleep(POLL_INTERVAL_S)


def _stage_of(status: Record) -> tuple[str, int, int]:
    running = status.get("running") or {}
    return str(running.get("stage") or ""), int(running.get("done") or 0), int(running.get("total") or 0)


async def _gather_bounded(
    jobs: Sequence[Callable[[], Awaitable[R]]], stage: str, on_progress: OnProgress | None
) -> list[R]:
    """Results in the order of the jobs; the first failure ends the rest."""
    places = asyncio.Semaphore(CONCURRENCY)
    num_done = 0

    async def run(job: Callable[[], Awaitable[R]]) -> R:
        nonlocal num_done
        async with places:
            result = await job()
        num_done += 1
        if on_progress is not None:
            on_progress(stage, num_done, len(jobs))
        return result

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run(job)) for job in jobs]
    return [task.result() for task in tasks]


async def _checked(response: aiohttp.ClientResponse) -> Any:
    if response.status >= 400:
        raise DaemonRefused(f"{response.method} {response.url.path}: {response.status} {await response.text()}")
    return await response.json()
