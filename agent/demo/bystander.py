"""Somebody who keeps asking while the daemon learns: is a request ever lost, and who answered it?"""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from agent.demo.driver import DaemonClient, DaemonRefused

INTERVAL_S = 3.0
MAX_TOKENS = 8
QUESTION = "Are you there?"


@dataclass(slots=True)
class Attendance:
    """What the bystander has seen so far."""

    answers_by_version: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    """One line per request that was refused or lost."""


@asynccontextmanager
async def bystander(client: DaemonClient) -> AsyncIterator[Attendance]:
    """Ask every few seconds for as long as the block lasts; kept out of learning (`store: false`)."""
    attendance = Attendance()
    leaving = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(_keep_asking(client, attendance, leaving))
        try:
            yield attendance
        finally:
            leaving.set()


async def _keep_asking(client: DaemonClient, attendance: Attendance, leaving: asyncio.Event) -> None:
    message = {"role": "user", "content": QUESTION}
    for num_asked in itertools.count(1):
        try:
            reply = await client.chat(
                [message], model="policy", seed=num_asked, max_tokens=MAX_TOKENS, user="bystander", store=False
            )
            attendance.answers_by_version[reply.model] += 1
        except (DaemonRefused, aiohttp.ClientError, TimeoutError) as error:
            attendance.failures.append(f"{type(error).__name__}: {error}")
        if await _is_set_within(leaving, INTERVAL_S):
            return


async def _is_set_within(event: asyncio.Event, timeout_s: float) -> bool:
    try:
        return await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return False
