"""What /admin/status tells: who runs, what is live, what is being done, what comes next."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import psutil

from agent.api.context import Phase
from agent.passes import Kind, Passes
from agent.publishing import LivePolicy
from agent.respond import Responder
from agent.schedules import Schedules
from agent.supervisor import Child, ChildRunner, ChildState
from memory.store import Store

Json = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusReader:
    """Reads the state of a running daemon; changes nothing."""

    phase: Phase
    store: Store
    policy: LivePolicy
    passes: Passes
    responder: Responder
    embedder: Child
    schedules: Schedules
    children: Sequence[Child]
    runner: ChildRunner
    started_at: datetime
    now: Callable[[], datetime]

    async def read(self) -> Json:
        return {
            "url": self.phase.url,
            "pid": os.getpid(),
            "ready": self.phase.not_ready is None,
            "not_ready": self.phase.not_ready,
            "uptime_s": round((self.now() - self.started_at).total_seconds(), 1),
            "rss_mb": resident_mb(os.getpid()),
            "live_version": self.policy.live.name,
            "base_fingerprint": self.policy.live.base_fingerprint,
            "children": [*map(_child, self.children), *_one_shot(self.runner)],
            "counts": await self._counts(),
            "requests_in_flight": self.responder.num_in_flight,
            "memory_degraded": self.embedder.state is not ChildState.READY,
            "learning_paused": self.schedules.clock.is_paused,
            "running": self._running(),
            "next_due": {kind.value: self._due_at(kind) for kind in Kind},
            "num_new": {kind.value: self._num_new(kind) for kind in Kind},
        }

    async def _counts(self) -> Json:
        return {
            "interactions": await self.store.interactions.count(),
            "feedback": await self.store.feedback.count(),
            "clusters": len(await self.store.judgements.clusters()),
            "versions": len(await self.store.updates.versions()),
        }

    def _running(self) -> Json | None:
        progress = self.passes.running
        if progress is None:
            return None
        return {
            "kind": progress.kind.value,
            "id": progress.id,
            "trigger": progress.trigger,
            "asked_at": progress.asked_at.isoformat(),
            "stage": progress.stage,
            "done": progress.done,
            "total": progress.total,
        }

    def _due_at(self, kind: Kind) -> str | None:
        """By time alone."""
        due_at = self.schedules.clock.next_due(kind)
        return due_at.isoformat() if due_at is not None else None

    def _num_new(self, kind: Kind) -> Json:
        """Interactions since the last run, and how many make one due (None: they never do)."""
        timer = self.schedules.clock.timers[kind]
        return {"interactions": timer.num_new, "due_at": timer.schedule.after_interactions}


def resident_mb(pid: int) -> float | None:
    """Resident memory; None where the process is gone."""
    try:
        return round(float(psutil.Process(pid).memory_info().rss) / 2**20, 1)
    except psutil.Error:
        return None


def _child(child: Child) -> Json:
    return {
        "name": child.spec.name,
        "pid": child.pid,
        "state": child.state.value,
        "restarts": child.num_restarts,
        "rss_mb": resident_mb(child.pid) if child.pid is not None else None,
    }


def _one_shot(runner: ChildRunner) -> list[Json]:
    return [
        {"name": module, "pid": pid, "state": "running", "restarts": 0, "rss_mb": resident_mb(pid)}
        for module, pid in runner.running.items()
    ]
