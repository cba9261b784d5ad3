"""Is what the engine serves after a publication what the trainer made, and is a bad adapter refused?

Real starter model, engine child, trainer child, store and pointer; only the judgements before training are left out:
a few served answers are distilled from one hint and published. Then four adapters that must never go live are offered.

    make bench NAME=swap_proof [QUICK=1] [SABOTAGE=stale_engine]

SABOTAGE=stale_engine serves the parent's weights under the candidate's name, as engines that keep a cache by name have
done: the proof must notice.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from safetensors.numpy import load_file, save_file

from agent.config import model_cache_dir
from agent.inference.client import EngineClient
from agent.publishing import LivePolicy, find_live
from agent.sources import PreparedModel, prepare
from agent.supervisor import Child, ChildRunner, ChildSpec
from agent.tables import Settings
from benchmarks.common import QUICK, Figure, finish, print_table, sabotage
from memory.completions import AdapterRejected, CompletionRequest
from memory.files import sha256_of
from memory.records import Message, SamplingParams, utc_now
from memory.store import open_store
from memory.tokens import Tokenizer
from updater.adapter import AdapterUnusable
from updater.deps import UpdateDeps
from updater.proof import MAX_ERROR, SwapProof, SwapUnproven
from updater.publish import publish_candidate
from updater.settings import UpdaterSettings
from updater.training import (
    ADAPTER_FILE,
    BASE_KEY,
    PLAN_FILE,
    RESULT_FILE,
    Candidate,
    EncodedExample,
    OwnAnswers,
    TrainingPlan,
    TrainingResult,
)

QUESTIONS = ("What is a glacier?", "Why is sleep important?", "How do I boil an egg?", "What causes rain?")
HINT = "Please answer in one short sentence."
NUM_PASSES = 1 if QUICK else 3


class StaleEngine(EngineClient):
    """Loads the parent's bytes whatever directory it is given."""

    def __init__(self, socket_path: str, parent: Path) -> None:
        super().__init__(socket_path=socket_path)
        self._parent = parent

    async def load_adapter(self, name: str, path: str) -> None:  # noqa: ARG002 - that is the sabotage
        await super().load_adapter(name, str(self._parent))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    plan: TrainingPlan
    result: TrainingResult

    @property
    def candidate(self) -> Candidate:
        return self.result.candidates[-1]


@asynccontextmanager
async def running_engine(model: PreparedModel, home: Path) -> AsyncIterator[Path]:
    socket = home / "engine.sock"
    where = ("--model-dir", str(model.directory), "--socket", str(socket))
    argv = ("agent.inference.server", *where, "--base-fingerprint", model.fingerprint)
    child = Child(ChildSpec(name="engine", argv=argv, threads=2, socket_path=socket), home)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(child.run())
        await child.wait_ready(120)
        yield socket
        running.cancel()


async def train(deps: UpdateDeps, home: Path, parent: Path | None) -> Trained:
    """Distil the hint into a handful of fresh answers, in the real trainer child."""
    live = deps.publisher.live
    name = "base" if live.adapter_path is None else live.name
    examples = tuple([await make_example(deps, name, question) for question in QUESTIONS])
    plan = TrainingPlan(
        model_dir=deps.model_dir,
        base_fingerprint=deps.base_fingerprint,
        parent_adapter=parent,
        examples=examples,
        replays=(),
        rank=16,
        learning_rate=5e-4,
        amplification=0.0,
        temperature=1.0,
        sharpness=1.0,
        num_passes=NUM_PASSES,
        own_answers=OwnAnswers(per_question=1, max_tokens=40, stop_token_ids=deps.tokenizer.stop_token_ids),
        batch_size=4,
        replay_ratio=0.0,
        scales=(1.0,),
        seed=1,
        proof_prompts=tuple(example.student_ids + example.token_ids for example in examples),
    )
    write_plan(home, plan)
    await deps.run_child("updater.worker", home, threads=2, niceness=19, timeout_s=600)
    return Trained(plan=plan, result=TrainingResult.model_validate_json((home / RESULT_FILE).read_text()))


def write_plan(home: Path, plan: TrainingPlan) -> None:
    home.mkdir()
    (home / PLAN_FILE).write_text(plan.model_dump_json())


async def make_example(deps: UpdateDeps, model: str, question: str) -> EncodedExample:
    plain = deps.tokenizer.render_chat([Message(role="user", content=question)])
    hinted = deps.tokenizer.render_chat([Message(role="user", content=f"{question}\n\n{HINT}")])
    request = CompletionRequest(
        model=model,
        prompt_token_ids=plain,
        sampling=SamplingParams(max_tokens=40, seed=1),
        stop_token_ids=deps.tokenizer.stop_token_ids,
    )
    completion = await deps.engine.complete(request)
    return EncodedExample(
        interaction_id=question,
        student_ids=plain,
        teacher_ids=hinted,
        token_ids=completion.token_ids,
        weight=1.0,
        teacher_is_base=False,
        follow_teacher=True,
    )


async def publish(deps: UpdateDeps, trained: Trained, candidate: Candidate) -> SwapProof:
    _, proof = await publish_candidate(
        deps,
        candidate,
        trained.result,
        parent=deps.publisher.live,
        proof_prompts=trained.plan.proof_prompts,
        update_id="upd_bench",
    )
    return proof


def bad_candidates(good: Candidate, live: Path, home: Path) -> dict[str, Candidate]:
    """What must never go live, by name."""
    bad = {}
    for name in ("unmoved", "truncated", "bit-flipped", "of another base"):
        directory = home / name.replace(" ", "-")
        shutil.copytree(live if name == "unmoved" else good.directory, directory)
        bad[name] = replace_directory(good, directory)
    content = (good.directory / ADAPTER_FILE).read_bytes()
    (bad["truncated"].directory / ADAPTER_FILE).write_bytes(content[:-4096])
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    (bad["bit-flipped"].directory / ADAPTER_FILE).write_bytes(bytes(flipped))
    restamp(bad["of another base"].directory / ADAPTER_FILE)
    for name in ("unmoved", "of another base"):
        bad[name] = replace_directory(bad[name], bad[name].directory, rehash=True)
    return bad


def replace_directory(candidate: Candidate, directory: Path, *, rehash: bool = False) -> Candidate:
    from_disk = {"sha256": sha256_of(directory / ADAPTER_FILE)} if rehash else {}
    return candidate.model_copy(update={"directory": directory, **from_disk})


def restamp(path: Path) -> None:
    save_file(load_file(path), path, metadata={BASE_KEY: "0" * 64})


async def measure(home: Path, broken: str | None) -> Figure:
    settings = Settings()
    cache = model_cache_dir(settings)
    model = prepare(settings.policy.source, cache, report=lambda *_: None)
    tokenizer = Tokenizer.load(model.directory)
    async with (
        open_store(home / "data") as store,
        running_engine(model, home) as socket,
        EngineClient(socket_path=str(socket)) as engine,
    ):
        live = await find_live(store, model.fingerprint, now=utc_now())
        policy = LivePolicy(store=store, engine=engine, data_dir=home / "data", live=live)
        deps = UpdateDeps(
            store=store,
            engine=engine,
            tokenizer=tokenizer,
            publisher=policy,
            run_child=ChildRunner(),
            settings=UpdaterSettings(),
            data_dir=home / "data",
            model_dir=model.directory,
            base_fingerprint=model.fingerprint,
            now=utc_now,
        )
        return await prove_and_refuse(deps, home, socket, broken)


async def prove_and_refuse(deps: UpdateDeps, home: Path, socket: Path, broken: str | None) -> Figure:
    first = await train(deps, home / "first", None)
    first_proof = await publish(deps, first, first.candidate)
    parent = deps.data_dir / (deps.publisher.live.adapter_path or "")
    second = await train(deps, home / "second", parent)
    if broken:
        deps = replace(deps, engine=StaleEngine(str(socket), parent))
    try:
        second_proof: SwapProof | None = await publish(deps, second, second.candidate)
    except SwapUnproven as unproven:
        print(f"refused: {unproven}")
        second_proof = None
    live_before = deps.publisher.live.number
    refusals = {}
    for name, candidate in bad_candidates(second.candidate, parent_of(deps), home).items():
        refusals[name] = await refusal_of(deps, second, candidate)
    kept = deps.publisher.live.number == live_before
    return report(first_proof, second_proof, refusals, live_kept=kept)


def parent_of(deps: UpdateDeps) -> Path:
    return deps.data_dir / (deps.publisher.live.adapter_path or "")


async def refusal_of(deps: UpdateDeps, trained: Trained, candidate: Candidate) -> str | None:
    """Why it was refused; None if it was published."""
    try:
        await publish(deps, trained, candidate)
    except (AdapterUnusable, AdapterRejected, SwapUnproven) as refusal:
        return str(refusal)
    return None


def proof_cells(proof: SwapProof | None) -> tuple[str, str]:
    if proof is None:
        return "refused", "-"
    return f"{proof.served_vs_trainer:.2e}", f"{proof.served_vs_parent:.2e}"


def report(first: SwapProof, second: SwapProof | None, refusals: dict[str, str | None], *, live_kept: bool) -> Figure:
    proofs = {"policy@v0 -> v1": first, "policy@v1 -> v2": second}
    print_table(
        "Swap proof: largest |difference in logprob| on the proof prompts",
        ("publication", "served vs trainer", "served vs parent"),
        [(name, *proof_cells(proof)) for name, proof in proofs.items()],
    )
    print_table("Publications that must be refused", ("adapter", "reason"), list(refusals.items()))
    worst = max(proof.served_vs_trainer for proof in proofs.values() if proof)
    ok = all(proofs.values()) and worst <= MAX_ERROR and all(refusals.values()) and live_kept
    return Figure(
        name="swap_proof",
        value=worst,
        target=f"served vs trainer at most {MAX_ERROR:.0e}; four bad adapters refused, live version kept",
        ok=ok and len(set(refusals.values())) == len(refusals),
        details={
            "proofs": {name: proof.model_dump() if proof else None for name, proof in proofs.items()},
            "refusals": refusals,
            "live_kept": live_kept,
        },
    )


def main() -> int:
    started = time.perf_counter()
    broken = sabotage(["stale_engine"])
    with tempfile.TemporaryDirectory(prefix="jm-swap-") as home:
        return finish(asyncio.run(measure(Path(home), broken)), started=started)


if __name__ == "__main__":
    sys.exit(main())
