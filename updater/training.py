"""What crosses between the daemon and the trainer child: a plan in, a result out, both JSON in one directory.

The trainer knows token ids, weights and step sizes. It does not know clusters, users, the store or the engine.
"""

import math
from pathlib import Path

from pydantic import BaseModel, ConfigDict

PLAN_FILE = "plan.json"
RESULT_FILE = "result.json"
ADAPTER_FILE = "adapter_model.safetensors"
ADAPTER_CONFIG_FILE = "adapter_config.json"
BASE_KEY = "base_fingerprint"
"""In the metadata of the adapter file: the base model that it belongs to."""
ENOUGH_STEPS = 6
"""Optimiser steps after which another pass over the same examples teaches them by heart (EXPERIMENTS.md)."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EncodedExample(_Frozen):
    """One example in token ids. Teacher and student read different prompts and judge the same tokens."""

    interaction_id: str
    student_ids: tuple[int, ...]
    """The prompt as served, recalled memory left out."""
    teacher_ids: tuple[int, ...]
    """The same prompt with the hint or the demonstration; equal to `student_ids` for replay."""
    token_ids: tuple[int, ...]
    """The logged completion, never re-tokenised (for a correction: the correction and the end of turn)."""
    weight: float
    teacher_is_base: bool
    """True where the live version does nothing when told and the bare base does."""
    follow_teacher: bool
    """True: token t counts by how likely the teacher would have come that far (objectives/forward_kl.py)."""


class OwnAnswers(_Frozen):
    """What the student is asked for once it has learnt from given answers, to be judged by the teacher."""

    per_question: int
    """0: it is taught on given answers only."""
    max_tokens: int
    stop_token_ids: tuple[int, ...]


class TrainingPlan(_Frozen):
    model_dir: Path
    base_fingerprint: str
    parent_adapter: Path | None
    """PEFT directory of the live version; None when the parent is v0."""
    examples: tuple[EncodedExample, ...]
    replays: tuple[EncodedExample, ...]
    rank: int
    learning_rate: float
    amplification: float
    """How far beyond the hinted teacher the target lies, as a share of the hint's effect (updater/train.py)."""
    temperature: float
    """At which answers are sampled: teacher and student are compared as they are then, not as they are at 1."""
    sharpness: float
    """What the teacher's logits on examples are multiplied by: a student that learns from little comes out flatter."""
    num_passes: int
    """Over the given examples; one more follows over the student's own answers."""
    own_answers: OwnAnswers
    batch_size: int
    replay_ratio: float
    scales: tuple[float, ...]
    """Adapter scales that are saved beside 1.0."""
    seed: int
    proof_prompts: tuple[tuple[int, ...], ...]
    """Token sequences whose logprobs prove a swap."""


class Candidate(_Frozen):
    """One point on the way from the parent to the trained student, saved as a PEFT directory."""

    name: str
    directory: Path
    scale: float
    sha256: str
    delta_norm: float
    """Frobenius norm of the change of all weight products against the parent."""
    proof_logprobs: tuple[tuple[float, ...], ...]
    """(prompts, T - 1) natural log, in the order of the plan's `proof_prompts`."""


class PassMetrics(_Frozen):
    own_answers: bool
    """False: KL(teacher || student) on given answers. True: KL(student || teacher) on the student's own."""
    example_kl_nats: float
    """Mean over examples of the weighted token mean, during the pass."""
    replay_kl_nats: float | None
    grad_norm: float


class TrainingResult(_Frozen):
    candidates: tuple[Candidate, ...]
    parent_logprobs: tuple[tuple[float, ...], ...]
    base_fingerprint: str
    passes: tuple[PassMetrics, ...]
    """The one over the student's own answers last."""
    peak_rss_mb: float
    seconds: float


def passes_for(num_examples: int, *, batch_size: int, max_passes: int) -> int:
    """As many passes as make enough steps, at most `max_passes`."""
    steps_per_pass = math.ceil(num_examples / batch_size)
    return min(max_passes, math.ceil(ENOUGH_STEPS / steps_per_pass))
