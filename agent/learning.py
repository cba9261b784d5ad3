"""The two passes, bound to a running daemon: what reflection and the updater are given."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from agent.data_dir import DataDir
from agent.generate import WaitReady
from agent.models import Models
from agent.passes import Kind, Report, RunPass
from agent.publishing import LivePolicy
from agent.tables import Settings
from memory.child import RunChild
from memory.completions import InferenceClient
from memory.embedder import Embedder
from memory.records import Version
from memory.store import Store
from memory.tokens import Tokenizer
from reflection.reflect import ReflectDeps, run_pass
from updater.deps import UpdateDeps
from updater.publish import roll_back
from updater.update import run_update

_EMBEDDER_WAIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """How the daemon starts a pass or a rollback, without knowing what they need."""

    runs: dict[Kind, RunPass]
    roll_back: Callable[[int], Awaitable[Version]]


def bind_learning(
    *,
    settings: Settings,
    home: DataDir,
    models: Models,
    store: Store,
    engine: InferenceClient,
    embedder: Embedder,
    tokenizer: Tokenizer,
    policy: LivePolicy,
    run_child: RunChild,
    wait_embedder: WaitReady,
    now: Callable[[], datetime],
) -> Learning:
    """Reflection waits for the embedder, which may still be loading; an update needs the engine alone."""
    reflecting = ReflectDeps(
        store=store,
        embedder=embedder,
        run_child=run_child,
        settings=settings.reflection,
        work_dir=home.passes,
        now=now,
    )
    updating = UpdateDeps(
        store=store,
        engine=engine,
        tokenizer=tokenizer,
        publisher=policy,
        run_child=run_child,
        settings=settings.updater,
        data_dir=home.path,
        model_dir=models.policy.directory,
        base_fingerprint=models.policy.fingerprint,
        now=now,
    )

    async def reflect(*, trigger: str, run_id: str, report: Report) -> None:
        report("waiting for the embedder", 0, 0)
        await wait_embedder(_EMBEDDER_WAIT_S)
        await run_pass(reflecting, trigger=trigger, pass_id=run_id, report=report)

    async def update(*, trigger: str, run_id: str, report: Report) -> None:
        await run_update(updating, trigger=trigger, update_id=run_id, report=report)

    async def back_to(number: int) -> Version:
        return await roll_back(updating, to=number)

    return Learning(runs={Kind.REFLECT: reflect, Kind.UPDATE: update}, roll_back=back_to)
