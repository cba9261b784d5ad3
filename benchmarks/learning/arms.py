"""The arms of demo_learning: what each does with the log, and what it measures. Each has a data directory of its own.

Knows how to drive daemons, not what has to hold (benchmarks/learning/checks.py).
"""

import asyncio
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.demo.daemon_process import running_daemon
from agent.demo.driver import DaemonClient, Record, measure, reflect, serve_log, update
from agent.demo.oracle import Answer
from agent.demo.run import AUDIT_SEED
from agent.demo.scenario import Kind, audit_items, make_scenario
from agent.demo.users import CONTRARY_SAYINGS, QUESTION_USERS, Wish
from benchmarks.learning.log_rewrite import Rewrite, permuted, rewrite_log, with_other_words
from benchmarks.learning.teacher_quality import Quality, teacher_quality
from benchmarks.learning.trained_policy import engine_of, policy_tokenizer, sample_answers
from benchmarks.learning.ungated_training import train_without_replay_or_gate

Answers = Mapping[Kind, list[Answer]]

LONG_MAX_TOKENS = 256
"""Token limit of the contrary arm: at the usual one there is no room to grow."""
NUM_LONG_QUESTIONS = 20
UPDATE_NOT_RUN: Record = {"id": None, "status": "not run", "reason": "SABOTAGE=no_training", "published_version": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured."""

    questions: tuple[str, ...]
    question_samples: int
    stories: tuple[str, ...]
    arms: tuple[str, ...]

    @classmethod
    def full(cls) -> "Plan":
        items = audit_items()
        arms = ("memory only", "no replay, no gate", "permuted feedback", "contrary wish")
        return cls(questions=items.questions, question_samples=2, stories=items.stories, arms=arms)

    @classmethod
    def quick(cls) -> "Plan":
        items = audit_items()
        return cls(
            questions=items.questions[:30], question_samples=1, stories=items.stories[:24], arms=("permuted feedback",)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedLog:
    data_dir: Path
    seconds: float
    """From the first request to the last."""
    interaction_ids: tuple[str, ...]
    """First turns, in the order of the scenario."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What reflection and one update made of a log, as the product does it."""

    seed: int
    log: ServedLog
    data_dir: Path
    update: Record
    seconds: float
    """From the first request to the end of the update, without the restart in between, which only the arms need."""
    frozen: Answers
    """Audit of policy@v0; measured for the first seed only, the audit being the same."""
    answers: Answers
    """Audit of the published version; empty without one."""
    quality: Quality | None
    why_trained: Any
    why_left_out: Any

    @property
    def published(self) -> bool:
        return bool(self.update["status"] == "published")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What another arm came to."""

    status: str
    reason: str
    answers: Answers = field(default_factory=dict)
    base_answers: Answers = field(default_factory=dict)
    """The frozen policy under the same limits, where they differ from the audit's."""


async def serve(data_dir: Path, seed: int) -> ServedLog:
    """Serve the scenario of `seed` to a daemon on an empty directory and stop it."""
    async with running_daemon(data_dir) as daemon, DaemonClient(daemon.url) as client:
        started = time.monotonic()
        visits = await serve_log(client, make_scenario(seed))
        seconds = time.monotonic() - started
    ids = tuple(served.interaction_id for served in visits)
    return ServedLog(data_dir=data_dir, seconds=seconds, interaction_ids=ids)


async def learn(log: ServedLog, data_dir: Path, *, seed: int, plan: Plan, train: bool) -> Learned:
    """Our arm: reflect, update, audit. `train` False leaves the update out."""
    copy_data_dir(log.data_dir, data_dir)
    async with running_daemon(data_dir) as daemon, DaemonClient(daemon.url) as client:
        await _wait_embedder(client)
        started = time.monotonic()
        await reflect(client)
        end = await update(client) if train else UPDATE_NOT_RUN
        seconds = log.seconds + time.monotonic() - started
        frozen = await _audit(client, "policy@v0", plan) if seed == 0 else {}
        published = end["status"] == "published"
        answers = await _audit(client, f"policy@v{end['published_version']}", plan) if published else {}
        quality = await teacher_quality(daemon, client, end, answers[Kind.QUESTION]) if published else None
        audited = [answer.interaction_id for answer in answers.get(Kind.QUESTION, ())[:1] if answer.interaction_id]
        why_trained, why_left_out = await _ask_why(client, [*log.interaction_ids, *audited])
    return Learned(
        seed=seed,
        log=log,
        data_dir=data_dir,
        update=end,
        seconds=seconds,
        frozen=frozen,
        answers=answers,
        quality=quality,
        why_trained=why_trained,
        why_left_out=why_left_out,
    )


async def memory_arm(first: Learned, data_dir: Path, plan: Plan) -> Arm:
    """The model `agent`, which recalls what the people said, on a daemon that never updated."""
    copy_data_dir(first.log.data_dir, data_dir)
    askers = [user.name for user in QUESTION_USERS if user.wish is Wish.SHORT]
    answers: list[Answer] = []
    async with running_daemon(data_dir) as daemon, DaemonClient(daemon.url) as client:
        for index, asker in enumerate(askers):
            share = plan.questions[index :: len(askers)]
            seed = AUDIT_SEED + 10_000 * index
            answers += await measure(client, "agent", share, samples=plan.question_samples, seed=seed, user=asker)
    return Arm(status="not updated", reason="recall only", answers={Kind.QUESTION: answers})


async def ungated_arm(first: Learned, data_dir: Path, plan: Plan) -> Arm:
    """The published update's own lessons, trained without replay and taken without selection or gate."""
    if not first.published:
        return Arm(status="not reached", reason="there is no published update to take the lessons from")
    copy_data_dir(first.data_dir, data_dir)
    adapter = await train_without_replay_or_gate(data_dir, first.update)
    async with running_daemon(data_dir) as daemon, engine_of(daemon) as engine:
        await engine.load_adapter("ungated", str(adapter))
        tokenizer = policy_tokenizer(data_dir)
        questions = await sample_answers(
            engine, tokenizer, "ungated", plan.questions, samples=plan.question_samples, seed=AUDIT_SEED
        )
        stories = await sample_answers(engine, tokenizer, "ungated", plan.stories, samples=1, seed=AUDIT_SEED)
    return Arm(status="taken as it is", reason="", answers={Kind.QUESTION: questions, Kind.STORY: stories})


async def permuted_arm(first: Learned, data_dir: Path, plan: Plan) -> Arm:
    """The same turns, but who said what of which answer is dealt out anew."""
    end, answers, _ = await _learn_rewritten(first, data_dir, permuted(seed=1), plan=plan, long=False)
    return Arm(status=end["status"], reason=end.get("reason") or "", answers=answers)


async def contrary_arm(first: Learned, data_dir: Path, plan: Plan) -> Arm:
    """Everybody who wanted it short wants more detail instead."""
    sayings = [saying for user in QUESTION_USERS if user.wish is Wish.SHORT for saying in user.sayings]
    words = {saying: CONTRARY_SAYINGS[index % len(CONTRARY_SAYINGS)] for index, saying in enumerate(sayings)}
    end, answers, base = await _learn_rewritten(first, data_dir, with_other_words(words), plan=plan, long=True)
    return Arm(status=end["status"], reason=end.get("reason") or "", answers=answers, base_answers=base)


async def _learn_rewritten(
    first: Learned, data_dir: Path, rewrite: Rewrite, *, plan: Plan, long: bool
) -> tuple[Record, Answers, Answers]:
    """Reflect and update on the rewritten log; audit what was published, with the frozen policy beside it if `long`."""
    await rewrite_log(first.log.data_dir, data_dir, rewrite=rewrite, tokenizer=policy_tokenizer(first.log.data_dir))
    async with running_daemon(data_dir) as daemon, DaemonClient(daemon.url) as client:
        await reflect(client)
        end = await update(client)
        if end["status"] != "published":
            return end, {}, {}
        live = f"policy@v{end['published_version']}"
        if not long:
            return end, await _audit(client, live, plan), {}
        return end, await _long_audit(client, live, plan), await _long_audit(client, "policy@v0", plan)


async def _audit(client: DaemonClient, model: str, plan: Plan) -> Answers:
    questions = await measure(client, model, plan.questions, samples=plan.question_samples, seed=AUDIT_SEED)
    return {
        Kind.QUESTION: questions,
        Kind.STORY: await measure(client, model, plan.stories, samples=1, seed=AUDIT_SEED),
    }


async def _long_audit(client: DaemonClient, model: str, plan: Plan) -> Answers:
    questions = plan.questions[:NUM_LONG_QUESTIONS]
    answers = await measure(client, model, questions, samples=1, seed=AUDIT_SEED, max_tokens=LONG_MAX_TOKENS)
    return {Kind.QUESTION: answers}


def copy_data_dir(source: Path, target: Path) -> None:
    """Copy a stopped daemon's directory, without what belongs to its process."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("run", "lock", "logs", "daemon.json", "serve.log"))


async def _wait_embedder(client: DaemonClient) -> None:
    while (await client.get("/admin/status"))["memory_degraded"]:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.5)


async def _ask_why(client: DaemonClient, interaction_ids: Sequence[str]) -> tuple[Record | None, Record | None]:
    """`why` of one interaction that was trained on and of one that was left out (an audited one always is)."""
    reasons = [await client.get(f"/admin/why/{interaction_id}") for interaction_id in interaction_ids]
    return _first_said(reasons, "trained"), _first_said(reasons, "left out")


def _first_said(reasons: list[Record], word: str) -> Record | None:
    return next((reason for reason in reasons if reason["answer"].replace("_", " ").startswith(word)), None)
