"""A real daemon whose reflection is due every few seconds, killed again and again around the moment it is due."""

import asyncio
import os
import random
import signal
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from agent.demo.daemon_process import QUIET_CLOCK, running_daemon
from memory.records import ReflectionPass
from memory.states import PassStatus
from memory.store import open_store

EVERY_S = 4
SETTINGS = {**QUIET_CLOCK, "JOURNEYMAN_REFLECTION__EVERY": f"{EVERY_S}s"}
MAX_PASSES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    num_passes: int
    num_overlapping: int
    num_left_running: int


async def kill_around_due(data_dir: Path, *, num_kills: int) -> Kills:
    """Half of the kills come just before the due moment, half just after it; then a daemon that may stop in peace."""
    rng = random.Random(0)  # noqa: S311 - a draw that can be repeated
    for number in range(num_kills):
        async with running_daemon(data_dir, settings=SETTINGS) as daemon:
            await asyncio.sleep(EVERY_S + (rng.uniform(-1, 0) if number % 2 else rng.uniform(1.2, 2)))
            os.kill(daemon.pid, signal.SIGKILL)
            await asyncio.sleep(0.5)
    async with running_daemon(data_dir, settings=SETTINGS):
        await asyncio.sleep(EVERY_S + 2)
    async with open_store(data_dir) as store:
        passes = sorted(await store.judgements.passes(limit=MAX_PASSES), key=lambda one: one.started_at)
    return Kills(
        num_passes=len(passes),
        num_overlapping=_num_overlapping(passes),
        num_left_running=sum(one.status is PassStatus.RUNNING for one in passes),
    )


def _num_overlapping(passes: list[ReflectionPass]) -> int:
    """Passes that begin before the one before them has ended."""
    return sum(before.ended_at is None or after.started_at < before.ended_at for before, after in pairwise(passes))
