"""The recipe of one update: what is taught, what is replayed beside it and how training goes, as one plan."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from updater.deps import UpdateDeps
from updater.encode import encode_replays, encode_targets
from updater.plan import Plan
from updater.roles import Roles
from updater.targets import ReadyTarget
from updater.training import EncodedExample, OwnAnswers, TrainingPlan, passes_for

SCALES = (0.5, 0.75, 1.0)
AMPLIFICATION = 0.25
"""How far the target lies beyond the hinted teacher; other amounts are compared in EXPERIMENTS.md."""
SHARPNESS = 1.2
"""Of the teacher's targets on examples; one leaves the student's answers less likely than the teacher's own."""
OWN_ANSWERS = 2
"""Answers of the student itself per question that teaches, for the teacher to judge."""
PROBE_TEMPERATURE = 0.7
"""At which every answer of an update is drawn, and at which teacher and student are compared."""
NUM_PROOF_PROMPTS = 4


def training_plan(
    deps: UpdateDeps,
    plan: Plan,
    targets: Sequence[ReadyTarget],
    told_answers: Mapping[str, Sequence[tuple[int, ...]]],
    *,
    parent_adapter: Path | None,
    max_tokens: int,
    seed: int,
    roles: Roles,
) -> TrainingPlan:
    """`max_tokens` bounds the student's own answers. What becomes of each interaction is noted in `roles`."""
    settings, tokenizer = deps.settings, deps.tokenizer
    examples = encode_targets(tokenizer, targets, told_answers, roles)
    replays = encode_replays(
        tokenizer, plan.protected, num_examples=len(examples), replay_ratio=settings.replay_ratio, roles=roles
    )
    return TrainingPlan(
        model_dir=deps.model_dir,
        base_fingerprint=deps.base_fingerprint,
        parent_adapter=parent_adapter,
        examples=examples,
        replays=replays,
        rank=settings.rank,
        learning_rate=settings.learning_rate,
        amplification=AMPLIFICATION,
        temperature=PROBE_TEMPERATURE,
        sharpness=SHARPNESS,
        num_passes=passes_for(len(examples), batch_size=settings.batch_size, max_passes=settings.max_passes),
        own_answers=OwnAnswers(
            per_question=OWN_ANSWERS, max_tokens=max_tokens, stop_token_ids=tokenizer.stop_token_ids
        ),
        batch_size=settings.batch_size,
        replay_ratio=settings.replay_ratio,
        scales=SCALES,
        seed=seed,
        proof_prompts=proof_prompts(examples),
    )


def proof_prompts(examples: Sequence[EncodedExample]) -> tuple[tuple[int, ...], ...]:
    """Prompts of the taught kind with their answers: where candidate and parent differ most."""
    return tuple(example.student_ids + example.token_ids for example in examples[:NUM_PROOF_PROMPTS])
