"""One update, from the store's judgements to a published version or the reason why not. Read `run_update` as prose.

Every update ends in exactly one of published, rejected, skipped, failed. Serving never waits for it: training is a
child process, the engine answers the updater after everyone else.
"""

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from memory.child import ChildFailed, read_progress
from memory.completions import AdapterRejected, InferenceError
from memory.records import SamplingParams, Update, Use, Version
from memory.states import UpdateStatus
from updater.adapter import AdapterUnusable, check_adapter
from updater.deps import UpdateDeps
from updater.gate import MIN_TARGET_PROMPTS, Versions, gate_protected, gate_target
from updater.hints import BASE, Judge, choose_hint
from updater.plan import MAX_GATE_PROMPTS, Case, Plan, Skip, make_plan
from updater.proof import SwapUnproven, prove_swap
from updater.publish import ParentReplaced, publish_candidate
from updater.recipe import PROBE_TEMPERATURE, training_plan
from updater.roles import Roles
from updater.rollouts import Scorer, all_of
from updater.scorecard import ClusterScore, Scorecard, SelectionPoint, State
from updater.selection import SelectionSlice, choose_candidate
from updater.stage_times import StageTimes
from updater.targets import ReadyTarget, ToldAnswers, best_told_answers
from updater.training import PLAN_FILE, RESULT_FILE, Candidate, TrainingPlan, TrainingResult

AUDIT_SAMPLES = 1
NICENESS = 19
SEED_STEP = 10_007
"""Draws and shuffles of one update repeat on the same log; those of the next update are others."""
MAX_PROBE_TOKENS = 128
"""Longest fresh answer of hint choice, selection and gate; served answers that were shorter set a lower bound."""

Report = Callable[[str, int, int], None]


class Reject(Exception):
    """The candidate is not good enough, and why."""

    def __init__(self, reason: str, scorecard: Scorecard | None = None) -> None:
        super().__init__(reason)
        self.scorecard = scorecard


async def run_update(deps: UpdateDeps, *, trigger: str, update_id: str, report: Report) -> Update:
    """Run one update to its one end and return its row."""
    parent = deps.publisher.live
    update = Update(id=update_id, trigger=trigger, started_at=deps.now(), parent_version=parent.number)
    await deps.store.updates.begin(update)
    stages = StageTimes(report)
    run = UpdateRun(deps, update_id=update_id, parent=parent, report=stages)
    try:
        version, scorecard = await run.to_the_end()
        end = replace(update, status=UpdateStatus.PUBLISHED, published_version=version.number, reason=version.note)
    except Skip as skip:
        end, scorecard = replace(update, status=UpdateStatus.SKIPPED, reason=str(skip)), None
    except Reject as rejection:
        end, scorecard = replace(update, status=UpdateStatus.REJECTED, reason=str(rejection)), rejection.scorecard
    except (ParentReplaced, AdapterUnusable, AdapterRejected, SwapUnproven) as refusal:
        end, scorecard = replace(update, status=UpdateStatus.REJECTED, reason=f"publication refused: {refusal}"), None
    except (ChildFailed, InferenceError) as failure:
        end, scorecard = replace(update, status=UpdateStatus.FAILED, reason=str(failure)), None
    await asyncio.to_thread(run.remove_candidates)
    end = replace(
        end,
        ended_at=deps.now(),
        plan_json=json.dumps(run.account),
        metrics_json=json.dumps({**run.metrics, "seconds_by_stage": stages.seconds()}),
        scorecard_json=scorecard.model_dump_json() if scorecard else "{}",
    )
    await deps.store.updates.add_uses(run.uses(end))
    await deps.store.updates.end(end)
    return end


class UpdateRun:
    """The steps of one update, and what they leave behind for its row."""

    def __init__(self, deps: UpdateDeps, *, update_id: str, parent: Version, report: Report) -> None:
        self.account: dict[str, object] = {}
        """The plan as it was carried out: targets, hints, what was replayed and left out."""
        self.metrics: dict[str, object] = {}
        self._deps = deps
        self._update_id = update_id
        self._parent = parent
        self._report = report
        self._live = BASE if parent.adapter_path is None else parent.name
        self._roles = Roles()
        self._seed = SEED_STEP * (parent.number + 1)

    async def to_the_end(self) -> tuple[Version, Scorecard]:
        plan = await self._plan()
        judge = self._make_judge(plan)
        targets = await self._choose_hints(judge, plan)
        told_answers = await self._ask_teachers(judge, targets)
        training = self._encode(plan, targets, told_answers, max_tokens=judge.sampling.max_tokens)
        result = await self._train(training)
        candidate, points = await self._select(judge, targets, training, result)
        scorecard = await self._gate(judge, plan, targets, candidate, points)
        if not scorecard.passed:
            raise Reject("; ".join(scorecard.reasons), scorecard)
        version = await self._publish(candidate, training, result)
        return version, scorecard

    def uses(self, end: Update) -> list[Use]:
        """What became of every interaction that the plan touched."""
        return self._roles.to_uses(end)

    def remove_candidates(self) -> None:
        """What was published has been copied; the plan and the result stay to be read."""
        for path in self._workdir().glob("*/"):
            shutil.rmtree(path)

    async def _plan(self) -> Plan:
        self._report("plan", 0, 1)
        plan = await make_plan(self._deps.store, self._deps.settings)
        for interaction_id, reason in plan.left_out:
            self._roles.note("left_out", [interaction_id], reason)
        for target in plan.targets:
            for role, cases in (("selection", target.selection), ("gate", target.gate), ("audit", target.audit)):
                self._roles.note(role, ids_of(cases), f"held out of training in {target.label!r}")
        self.account["targets"] = [{"cluster_id": row.cluster_id, "label": row.label} for row in plan.targets]
        self.account["protected"] = [{"cluster_id": row.cluster_id, "label": row.label} for row in plan.protected]
        return plan

    def _make_judge(self, plan: Plan) -> Judge:
        """Fresh answers are drawn as the served ones were, within what an update may cost."""
        served = [case.interaction.sampling.max_tokens for target in plan.targets for case in target.train]
        sampling = SamplingParams(
            temperature=PROBE_TEMPERATURE,
            max_tokens=min(MAX_PROBE_TOKENS, sorted(served)[len(served) // 2]),
            seed=self._seed,
        )
        engine = self._deps.engine
        return Judge(engine=engine, scorer=Scorer(engine), tokenizer=self._deps.tokenizer, sampling=sampling)

    async def _choose_hints(self, judge: Judge, plan: Plan) -> list[ReadyTarget]:
        """A target whose wish the policy does not follow when told is dropped, with that reason."""
        ready, refused, chosen = [], [], []
        for number, target in enumerate(plan.targets):
            self._report("hints", number, len(plan.targets))
            hint = await choose_hint(judge, target, live=self._live) if target.hinted else None
            if target.hinted and hint is None:
                refused.append(f"{target.label}: the policy does not do what it is told (no wording moves it enough)")
                self._roles.note(
                    "left_out", ids_of(target.train), "not learnable: the policy does not follow the wish when told"
                )
                continue
            candidate = ReadyTarget(target=target, hint=hint)
            supporters = candidate.supporting(target.train)
            if len(supporters) < self._deps.settings.min_examples:
                refused.append(f"{target.label}: {len(supporters)} examples agree with the hint {hint and hint.text!r}")
                self._roles.note("left_out", ids_of(target.train), "too few examples agree on what is wanted")
                continue
            if len(candidate.supporting(target.gate)) < MIN_TARGET_PROMPTS:
                held = f"{len(candidate.supporting(target.gate))} held-out examples agree with the hint"
                refused.append(f"{target.label}: {held}, and the gate needs {MIN_TARGET_PROMPTS}")
                self._roles.note("left_out", ids_of(target.train), "too few held-out examples for the gate")
                continue
            ready.append(candidate)
            chosen.append(describe_hint(candidate))
        self.account["hints"] = chosen
        if not ready:
            raise Skip("; ".join(refused))
        return ready

    async def _ask_teachers(self, judge: Judge, targets: Sequence[ReadyTarget]) -> ToldAnswers:
        """What the frozen teacher itself answers when told: the best of a few tries."""
        told: ToldAnswers = {}
        for number, ready in enumerate(targets):
            self._report("teacher answers", number, len(targets))
            told |= await best_told_answers(judge, ready, ready.supporting(ready.target.hinted))
        return told

    def _encode(
        self, plan: Plan, targets: Sequence[ReadyTarget], told_answers: ToldAnswers, *, max_tokens: int
    ) -> TrainingPlan:
        return training_plan(
            self._deps,
            plan,
            targets,
            told_answers,
            parent_adapter=self._parent_adapter(),
            max_tokens=max_tokens,
            seed=self._seed,
            roles=self._roles,
        )

    async def _train(self, training: TrainingPlan) -> TrainingResult:
        workdir = self._workdir()
        shutil.rmtree(workdir, ignore_errors=True)
        workdir.mkdir(parents=True)
        (workdir / PLAN_FILE).write_text(training.model_dump_json())
        settings = self._deps.settings
        await self._deps.run_child(
            "updater.worker",
            workdir,
            threads=settings.threads or os.cpu_count() or 1,
            niceness=NICENESS,
            timeout_s=settings.max_runtime_s,
            on_line=lambda line: self._report(*read_progress(line)),
        )
        result = TrainingResult.model_validate_json((workdir / RESULT_FILE).read_text())
        self.metrics = result.model_dump(mode="json", exclude={"candidates", "parent_logprobs"})
        self.metrics["num_examples"] = len(training.examples)
        self.metrics["num_replays"] = len(training.replays)
        return result

    async def _select(
        self,
        judge: Judge,
        targets: Sequence[ReadyTarget],
        training: TrainingPlan,
        result: TrainingResult,
    ) -> tuple[Candidate, list[SelectionPoint]]:
        slice_ = SelectionSlice(judge, targets, live=self._live)
        self._report("select", 0, len(result.candidates))
        await slice_.measure_ends()
        tried = 0

        async def gap_closed(candidate: Candidate) -> float:
            nonlocal tried
            tried += 1
            self._report("select", tried, len(result.candidates))
            name = await self._load(candidate, training, result)
            try:
                return await slice_.gap_closed(name)
            finally:
                await self._deps.engine.unload_adapter(name)

        chosen, points = await choose_candidate(result.candidates, gap_closed)
        if chosen is None:
            seen = ", ".join(f"{point.name} {point.gap_closed:.2f}" for point in points)
            raise Reject(f"no candidate came near the teacher on the selection slice (share of the gap closed: {seen})")
        return chosen, points

    async def _load(self, candidate: Candidate, training: TrainingPlan, result: TrainingResult) -> str:
        """Make a candidate resident under a name of its own, checked and proven. Returns the name."""
        await asyncio.to_thread(
            check_adapter,
            candidate.directory,
            sha256=candidate.sha256,
            base_fingerprint=self._deps.base_fingerprint,
            parent=self._parent_adapter(),
        )
        name = f"{self._update_id}-{candidate.name}"
        await self._deps.engine.load_adapter(name, str(candidate.directory))
        try:
            await prove_swap(
                self._deps.engine,
                name,
                training.proof_prompts,
                trained=candidate.proof_logprobs,
                parent=result.parent_logprobs,
            )
        except SwapUnproven:
            await self._deps.engine.unload_adapter(name)
            raise
        return name

    async def _gate(
        self,
        judge: Judge,
        plan: Plan,
        targets: Sequence[ReadyTarget],
        candidate: Candidate,
        points: Sequence[SelectionPoint],
    ) -> Scorecard:
        name = f"{self._update_id}-{candidate.name}"
        await self._deps.engine.load_adapter(name, str(candidate.directory))
        try:
            versions = Versions(live=self._live, candidate=name)
            return await self._compare(judge, plan, targets, versions, points=points)
        finally:
            await self._deps.engine.unload_adapter(name)

    async def _compare(
        self,
        judge: Judge,
        plan: Plan,
        targets: Sequence[ReadyTarget],
        versions: Versions,
        *,
        points: Sequence[SelectionPoint],
    ) -> Scorecard:
        num_samples = self._deps.settings.gate_samples
        self._report("gate", 0, 1)
        gated = [
            gate_target(judge, ready, gated_cases(ready, ready.target.gate), versions, num_samples=num_samples)
            for ready in targets
        ]
        protected = [
            gate_protected(judge, cluster, targets, versions, num_samples=num_samples) for cluster in plan.protected
        ]
        audited = [
            gate_target(judge, ready, gated_cases(ready, ready.target.audit), versions, num_samples=AUDIT_SAMPLES)
            for ready in targets
        ]
        # All at once: the engine is fastest with every slot taken.
        every = await all_of([*gated, *protected, *audited])
        scores, audit = every[: -len(audited)], every[-len(audited) :]
        reasons = reasons_against(scores)
        return Scorecard(
            candidate=versions.candidate,
            passed=not reasons,
            reasons=tuple(reasons),
            clusters=tuple(scores),
            selection=tuple(points),
            audit=tuple(audit),
        )

    async def _publish(self, candidate: Candidate, training: TrainingPlan, result: TrainingResult) -> Version:
        self._report("publish", 0, 1)
        version, proof = await publish_candidate(
            self._deps,
            candidate,
            result,
            parent=self._parent,
            proof_prompts=training.proof_prompts,
            update_id=self._update_id,
        )
        self.metrics["swap_proof"] = proof.model_dump()
        self._report("publish", 1, 1)
        return version

    def _parent_adapter(self) -> Path | None:
        return self._deps.data_dir / self._parent.adapter_path if self._parent.adapter_path else None

    def _workdir(self) -> Path:
        return self._deps.data_dir / "updates" / self._update_id


def reasons_against(scores: Sequence[ClusterScore]) -> list[str]:
    """Why a candidate must not be published: a target that did not improve, a protected cluster that was harmed."""
    return [
        f"{score.label}: {score.state.value} ({score.reason})"
        for score in scores
        if (score.role == "target" and score.state is not State.IMPROVED) or score.state is State.HARMED
    ]


def gated_cases(ready: ReadyTarget, cases: Sequence[Case]) -> tuple[Case, ...]:
    """Those whose user does not want something else, and no more than an update may cost."""
    return ready.supporting(cases)[:MAX_GATE_PROMPTS]


def ids_of(cases: Sequence[Case]) -> list[str]:
    return [case.interaction.id for case in cases]


def describe_hint(ready: ReadyTarget) -> dict[str, object]:
    hint = ready.hint
    if hint is None:
        return {"cluster_id": ready.target.cluster_id, "label": ready.target.label, "method": "corrections"}
    return {
        "cluster_id": ready.target.cluster_id,
        "label": ready.target.label,
        "hint": hint.text,
        "teacher": hint.model,
        "gap_nats": hint.gap_nats,
        "tried": [
            {
                "words": one.words,
                "gap_nats": one.gap_nats,
                "naturalness_nats": one.naturalness_nats,
                "clarity_nats": one.clarity_nats,
                "num_answers": one.num_answers,
            }
            for one in hint.tried
        ],
        "agreement": [{"words": words, "nats": nats} for words, nats in hint.agreement],
        "dissenting_principals": sorted(hint.dissenting),
    }
