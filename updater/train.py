"""The training loop: examples in token ids become candidate adapters. Read it top to bottom.

The only module here that needs torch; it runs in the trainer child and knows nothing of clusters or users. The
student starts as the parent, so the frozen teacher is the student itself before its first step: its targets are
computed once and kept, in half precision, in a file.
"""

import math
import random
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from memory.files import sha256_of
from updater.adapter import delta_norm
from updater.objectives.forward_kl import forward_kl, reach_weights
from updater.objectives.reverse_kl import reverse_kl
from updater.own_answers import sample_own_answers
from updater.training import (
    ADAPTER_FILE,
    BASE_KEY,
    Candidate,
    EncodedExample,
    PassMetrics,
    TrainingPlan,
    TrainingResult,
)

PLAUSIBLE = 0.1  # of the teacher's most probable token: what amplification may raise
MIN_REACH = 0.01  # weight below which the rest of an answer is cut off
LAST_STEP = 0.5  # of the step size: at a constant one answers became less likely under the teacher (EXPERIMENTS.md)
WARMUP_STEPS = 2  # the optimiser starts without moments
GRAD_CLIP = 1.0
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

Report = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Target:
    """What one example asks of the student."""

    example: EncodedExample
    teacher_logprobs: np.memmap  # (T, V) float16
    weights: Tensor  # (T,) float32


def train(plan: TrainingPlan, workdir: Path, report: Report) -> TrainingResult:
    """Learn from the given answers, then from the student's own, and save a candidate per scale."""
    started = time.monotonic()
    torch.manual_seed(plan.seed)
    policy = load_policy(plan)
    parent_logprobs = score_prompts(policy, plan.proof_prompts)
    start = copy_weights(policy)
    targets = make_targets(policy, plan, (*plan.examples, *plan.replays), workdir / "given", report)
    examples, replays = targets[: len(plan.examples)], targets[len(plan.examples) :]

    optimizer = torch.optim.AdamW(trainable(policy), lr=plan.learning_rate, weight_decay=0.0)
    passes = [make_batches(plan, examples, replays, number) for number in range(1, plan.num_passes + 1)]
    metrics = take_passes(policy, optimizer, passes, plan, report, own_answers=False)

    report("own answers", 0, 1)
    questions = [example for example in plan.examples if example.follow_teacher]
    answers = sample_own_answers(policy, questions, plan.own_answers, temperature=plan.temperature)
    if answers:
        reached = copy_weights(policy)
        set_weights(policy, start)  # the teacher is still the parent
        judged = make_targets(policy, plan, answers, workdir / "own", report)
        set_weights(policy, reached)
        last = make_batches(plan, judged, replays, plan.num_passes + 1)
        metrics += take_passes(policy, optimizer, [last], plan, report, own_answers=True)
    return TrainingResult(
        candidates=tuple(save_candidates(policy, plan, start, workdir)),
        parent_logprobs=parent_logprobs,
        base_fingerprint=plan.base_fingerprint,
        passes=tuple(metrics),
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        seconds=time.monotonic() - started,
    )


def load_policy(plan: TrainingPlan) -> PeftModel:
    """Base plus a trainable copy of the parent's adapter (a fresh one, equal to the base, under v0). No dropout."""
    base = AutoModelForCausalLM.from_pretrained(plan.model_dir, dtype=torch.float32)
    if plan.parent_adapter is not None:
        return PeftModel.from_pretrained(base, plan.parent_adapter, is_trainable=True)
    config = LoraConfig(
        r=plan.rank, lora_alpha=2 * plan.rank, lora_dropout=0.0, target_modules=LINEARS, task_type="CAUSAL_LM"
    )
    return get_peft_model(base, config)


def trainable(policy: PeftModel) -> list[torch.nn.Parameter]:
    return [parameter for parameter in policy.parameters() if parameter.requires_grad]


def copy_weights(policy: PeftModel) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in trainable(policy)]


def completion_logits(policy: PeftModel, prompt: tuple[int, ...], completion: tuple[int, ...]) -> Tensor:
    """(T, V) logits that predict the completion. The head runs on those positions only: the vocabulary is the cost."""
    causal_lm = policy.base_model.model
    token_ids = torch.tensor([prompt + completion])  # (1, T')
    hidden = causal_lm.model(input_ids=token_ids, use_cache=False).last_hidden_state  # (1, T', D)
    logits: Tensor = causal_lm.lm_head(hidden[0, len(prompt) - 1 : -1])  # (T, V)
    return logits


def make_targets(
    policy: PeftModel, plan: TrainingPlan, wanted: Sequence[EncodedExample], folder: Path, report: Report
) -> list[Target]:
    """Teacher's logprobs, kept in files of `folder`, and token weights of every example. `policy` is the parent."""
    folder.mkdir()
    targets = []
    with torch.no_grad():
        for number, example in enumerate(wanted, start=1):
            student = completion_logits(policy, example.student_ids, example.token_ids)
            teacher = amplify(teacher_logits(policy, example, student), student, plan.amplification)
            if not is_replay(example):
                teacher = teacher * plan.sharpness
            teacher_logprobs = torch.log_softmax(teacher / plan.temperature, dim=-1)  # (T, V)
            weights = token_weights(example, teacher_logprobs, torch.log_softmax(student / plan.temperature, dim=-1))
            length = num_reached(weights)  # every pass would pay for the rest
            shape = (length, teacher_logprobs.shape[1])
            kept = np.memmap(folder / f"{number}.f16", dtype=np.float16, mode="w+", shape=shape)
            kept[:] = teacher_logprobs[:length].numpy()
            reached = example.model_copy(update={"token_ids": example.token_ids[:length]})
            targets.append(Target(reached, kept, weights[:length]))
            report("teacher", number, len(wanted))
    return targets


def teacher_logits(policy: PeftModel, example: EncodedExample, student: Tensor) -> Tensor:
    """(T, V) logits of the frozen teacher: the parent reading the hint, or the parent itself for replay."""
    if is_replay(example):
        return student
    if not example.teacher_is_base:
        return completion_logits(policy, example.teacher_ids, example.token_ids)
    with policy.disable_adapter():
        return completion_logits(policy, example.teacher_ids, example.token_ids)


def is_replay(example: EncodedExample) -> bool:
    return example.teacher_ids == example.student_ids


def amplify(teacher: Tensor, student: Tensor, amount: float) -> Tensor:
    """(T, V) logits that go on in the direction of the hint, among the tokens that the teacher finds plausible.

    (1 + a) * teacher - a * student, as classifier-free guidance does for language models (arXiv 2306.17806), used here
    on the target: a student that closes most of the gap would otherwise always stop short of what was asked. Tokens
    below a tenth of the teacher's best are never raised (contrastive decoding's constraint, arXiv 2210.15097): without
    it rare tokens that the hint happens to favour make answers that the teacher itself finds unlikely.
    """
    teacher, student = torch.log_softmax(teacher, dim=-1), torch.log_softmax(student, dim=-1)
    plausible = teacher >= teacher.max(dim=-1, keepdim=True).values + math.log(PLAUSIBLE)
    push = amount * (teacher - student)
    return teacher + torch.where(plausible, push, push.clamp(max=0.0))


def token_weights(example: EncodedExample, teacher: Tensor, student: Tensor) -> Tensor:
    """(T,) weights: how far the teacher would have come (hindsight), or one for every token."""
    tokens = torch.tensor(example.token_ids)[:, None]  # (T, 1)
    if not example.follow_teacher:
        return torch.ones(len(example.token_ids))
    return reach_weights(teacher.gather(1, tokens)[:, 0], student.gather(1, tokens)[:, 0])


def num_reached(weights: Tensor) -> int:
    """How many of the (T,) weights are not followed by negligible ones alone."""
    return int((weights >= MIN_REACH).nonzero().max()) + 1


def make_batches(
    plan: TrainingPlan, examples: Sequence[Target], replays: Sequence[Target], pass_number: int
) -> list[list[Target]]:
    """Shuffled batches of examples, each with its share of replays; the replays go round over the passes."""
    order = random.Random(plan.seed * 1000 + pass_number)  # noqa: S311 - reproducible, not secret
    shuffled = order.sample(list(examples), len(examples))
    turns = _cycle(replays, plan.seed, pass_number)
    batches = []
    for start in range(0, len(shuffled), plan.batch_size):
        batch = shuffled[start : start + plan.batch_size]
        num_replays = round(len(batch) * plan.replay_ratio) if replays else 0
        batches.append(batch + [next(turns) for _ in range(num_replays)])
    return batches


def _cycle(replays: Sequence[Target], seed: int, pass_number: int) -> Iterator[Target]:
    order = random.Random(seed * 1000 + 500 + pass_number)  # noqa: S311 - reproducible, not secret
    while True:
        yield from order.sample(list(replays), len(replays))


def take_passes(
    policy: PeftModel,
    optimizer: torch.optim.Optimizer,
    passes: Sequence[Sequence[list[Target]]],
    plan: TrainingPlan,
    report: Report,
    *,
    own_answers: bool,
) -> list[PassMetrics]:
    """One optimiser step per batch; the step size rises and falls once over all of the passes."""
    total, done = sum(len(batches) for batches in passes), 0
    metrics = []
    for batches in passes:
        steps = []
        for batch in batches:
            set_step_size(optimizer, plan.learning_rate, done, total)
            steps.append(take_step(policy, optimizer, batch, plan.temperature, own_answers=own_answers))
            done += 1
            report("train on own answers" if own_answers else "train", done, total)
        metrics.append(summarise(steps, own_answers=own_answers))
    return metrics


def set_step_size(optimizer: torch.optim.Optimizer, learning_rate: float, step: int, num_steps: int) -> None:
    """Linear warm-up, then a linear fall to LAST_STEP of it."""
    fallen = 1.0 - (1.0 - LAST_STEP) * step / num_steps
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * min((step + 1) / WARMUP_STEPS, fallen)


def take_step(
    policy: PeftModel,
    optimizer: torch.optim.Optimizer,
    batch: list[Target],
    temperature: float,
    *,
    own_answers: bool,
) -> list[tuple[bool, float, float]]:
    """One optimiser step on the weighted mean of the batch's losses; (is replay, nats, gradient norm) of each.

    One sequence per backward, because activations are what a trainer's memory goes into.
    """
    optimizer.zero_grad(set_to_none=True)
    total_weight = sum(target.example.weight for target in batch)
    nats = []
    for target in batch:
        example = target.example
        logits = completion_logits(policy, example.student_ids, example.token_ids) / temperature
        divergence = reverse_kl if own_answers and not is_replay(example) else forward_kl
        loss = divergence(torch.from_numpy(np.asarray(target.teacher_logprobs)), logits, target.weights)
        (loss * (example.weight / total_weight)).backward()  # type: ignore[no-untyped-call]
        nats.append((is_replay(example), loss.item()))
    norm = float(torch.nn.utils.clip_grad_norm_(trainable(policy), GRAD_CLIP))
    if not np.isfinite(norm):
        raise FloatingPointError("the gradient is not finite: training stopped, nothing is published")
    optimizer.step()
    return [(replayed, loss, norm) for replayed, loss in nats]


def summarise(steps: list[list[tuple[bool, float, float]]], *, own_answers: bool) -> PassMetrics:
    rows = [row for step in steps for row in step]
    examples = [nats for replayed, nats, _ in rows if not replayed]
    replays = [nats for replayed, nats, _ in rows if replayed]
    return PassMetrics(
        own_answers=own_answers,
        example_kl_nats=float(np.mean(examples)),
        replay_kl_nats=float(np.mean(replays)) if replays else None,
        grad_norm=float(np.mean([norm for _, _, norm in rows])),
    )


def save_candidates(policy: PeftModel, plan: TrainingPlan, start: list[Tensor], workdir: Path) -> list[Candidate]:
    """One PEFT directory per scale: the point that share of the way from the parent's A and B to the student's."""
    reached = copy_weights(policy)
    saved = []
    for scale in plan.scales:
        set_weights(policy, [torch.lerp(old, new, scale) for old, new in zip(start, reached, strict=True)])
        directory = workdir / f"scale-{scale:.2f}"
        policy.save_pretrained(directory)
        stamp_base(directory / ADAPTER_FILE, plan.base_fingerprint)
        saved.append(
            Candidate(
                name=directory.name,
                directory=directory,
                scale=scale,
                sha256=sha256_of(directory / ADAPTER_FILE),
                delta_norm=delta_norm(directory, plan.parent_adapter),
                proof_logprobs=score_prompts(policy, plan.proof_prompts),
            )
        )
    return saved


def stamp_base(path: Path, base_fingerprint: str) -> None:
    """Write into the adapter file which base model it belongs to: one key, since the order of several is random."""
    save_file(load_file(path), path, metadata={BASE_KEY: base_fingerprint})


def set_weights(policy: PeftModel, weights: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(trainable(policy), weights, strict=True):
            parameter.copy_(value)


def score_prompts(policy: PeftModel, prompts: Sequence[tuple[int, ...]]) -> tuple[tuple[float, ...], ...]:
    """Per prompt the (T - 1) natural-log probabilities of its own tokens: what the serving path must reproduce."""
    rows = []
    with torch.no_grad():
        for prompt in prompts:
            logits = completion_logits(policy, prompt[:1], prompt[1:])
            logprobs = torch.log_softmax(logits, dim=-1).gather(1, torch.tensor(prompt[1:])[:, None])[:, 0]
            rows.append(tuple(logprobs.tolist()))
    return tuple(rows)
