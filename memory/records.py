"""The records that cross threads, processes and folders: frozen facts, validated where they enter.

Times are timezone-aware UTC. Scores of feedback lie in [-1, 1], scores of verdicts in [0, 1]; a score that nobody
could give is `None` and never a number. Identities are made by `new_id`, so they sort by time of birth.
"""

import secrets
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from memory.states import (
    Cause,
    EvidenceKind,
    FinishReason,
    Method,
    Outcome,
    PassStatus,
    Purpose,
    Remedy,
    Scope,
    Split,
    UpdateStatus,
    VersionOrigin,
)


def new_id(prefix: str) -> str:
    """`prefix_` + 12 hex digits of milliseconds + 12 random hex digits: unique, and sortable by time."""
    return f"{prefix}_{int(time.time() * 1000):012x}{secrets.token_hex(6)}"


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    role: str
    """system, user, assistant or tool (`developer` is stored as system)."""
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """All that decides how tokens are drawn; stored with every interaction."""

    temperature: float = 0.7
    top_p: float = 1.0
    top_k: int = 0
    """0: off."""
    min_p: float = 0.0
    max_tokens: int = 256
    seed: int = 0
    """Always set: a request without one is given one, so that every interaction can be replayed."""
    stop: tuple[str, ...] = ()
    """Stop strings, matched by the daemon on decoded text; never part of what is sent."""
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Seconds, monotonic, from admission."""

    ttft_s: float | None = None
    total_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """One choice as it was served. Id and version are fixed at admission; the row is written once, when it ended."""

    id: str
    request_id: str
    """One id for all choices of a request (n > 1)."""
    choice_index: int = 0
    principal: str
    key_id: str | None = None
    session_id: str
    parent_id: str | None = None
    """The interaction of the same session that this one continues."""
    created_at: datetime
    completed_at: datetime
    model: str
    """The name the client asked for: agent, policy, policy@vN or base."""
    messages: tuple[Message, ...]
    """As the client sent them: no system prompt and no recalled memory of ours."""
    tools_json: str | None = None
    system_prompt: str | None = None
    """What the `agent` model put before the messages, without recalled memory."""
    recalled_ids: tuple[str, ...] = ()
    """Interactions whose text was injected as memory."""
    prompt_token_ids: tuple[int, ...]
    """Exactly what the engine read, recalled memory included."""
    token_ids: tuple[int, ...]
    """Exactly what was sampled, the end-of-turn token included when it was sampled."""
    logprobs: tuple[float, ...]
    """Raw (temperature 1, unmasked) natural-log probabilities of `token_ids`; float32 precision."""
    num_unsent: int = 0
    """Trailing sampled tokens whose text was not sent (past a stop string)."""
    text: str
    """What the client received."""
    sampling: SamplingParams
    constraint_id: str | None = None
    precision: str = "fp32"
    policy_version: int
    """N of policy@vN; requests for `base` are stored under 0."""
    base_fingerprint: str
    finish_reason: FinishReason
    outcome: Outcome = Outcome.OK
    cause: Cause = Cause.NONE
    error: str | None = None
    timings: Timings = Timings()
    idempotency_key: str | None = None
    purpose: Purpose = Purpose.LIVE
    learn: bool = True
    """False: never trained on (`store: false`, or a key with learn = false)."""

    @property
    def last_user_text(self) -> str:
        """The newest user message, or an empty string."""
        return next((m.content for m in reversed(self.messages) if m.role == "user"), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What someone outside said of an interaction; raw, append-only."""

    id: str
    created_at: datetime
    principal: str
    interaction_id: str
    score: float | None = None
    """In [-1, 1]; a thumb is +1 or -1."""
    comment: str | None = None
    correction: str | None = None
    """The answer that should have been given."""
    metric_name: str | None = None
    metric_value: float | None = None
    channel: str = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing that bears on an interaction's worth."""

    id: str
    created_at: datetime
    interaction_id: str
    kind: EvidenceKind
    source_id: str
    """The feedback, or the interaction that is the next turn."""
    score: float | None = None
    """In [-1, 1]; None where the evidence says nothing of good or bad."""
    text: str | None = None
    """The words, where there are any: a comment, a next turn."""
    correction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judge's decision on one interaction in one pass. Later evidence appends another verdict."""

    id: str
    created_at: datetime
    pass_id: str
    interaction_id: str
    score: float
    """In [0, 1]."""
    reasons: tuple[str, ...]
    """One line per criterion that spoke."""
    hint: str | None = None
    """The user's own words that would have made the completion better."""
    correction: str | None = None
    evidence_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstention:
    """The judge could not decide, and why. Never a score."""

    id: str
    created_at: datetime
    pass_id: str
    interaction_id: str
    reason: str
    evidence_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Where an interaction stands: its near-duplicate group, split and cluster."""

    interaction_id: str
    group_id: str
    split: Split
    cluster_id: str | None = None
    state: str = "awaiting_map"
    """assigned, awaiting_map, outlier, or not_applicable (the turn was feedback, not a request)."""
    similarity: float | None = None
    """Cosine to the cluster's centroid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A kind of interaction."""

    id: str
    label: str
    centroid: tuple[float, ...]
    """(D,) unit vector in the embedder's space."""
    size: int
    num_principals: int
    trend: float | None = None
    """Mean verdict score of the newest pass minus the one before."""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureMode:
    """What goes wrong in the same way, within or across clusters."""

    label: str
    count: int
    evidence_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """One self-evaluation of one cluster in one pass."""

    id: str
    created_at: datetime
    pass_id: str
    cluster_id: str
    label: str
    num_interactions: int
    num_judged: int
    num_principals: int
    score: float | None
    """Mean over principals of their mean verdict; None where nothing was judged."""
    score_low: float | None
    score_high: float | None
    """95 % Wilson bounds of the share of judged interactions that were good."""
    failure_modes: tuple[FailureMode, ...] = ()
    diagnosis: str
    remedy: Remedy
    num_proposed: int = 0
    """Examples proposed for training."""
    left_out: tuple[tuple[str, int], ...] = ()
    """(reason, how many)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionPass:
    """One run of the reflection clock."""

    id: str
    trigger: str
    """every, cron, after_interactions or manual."""
    started_at: datetime
    ended_at: datetime | None = None
    status: PassStatus = PassStatus.RUNNING
    reason: str | None = None
    num_interactions: int = 0
    num_verdicts: int = 0
    num_abstentions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A curated interaction, ready for training, gate or audit according to its split."""

    id: str
    created_at: datetime
    reflection_id: str
    interaction_id: str
    cluster_id: str
    principal: str
    method: Method
    split: Split
    hint: str | None = None
    correction: str | None = None
    evidence_ids: tuple[str, ...] = ()
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One run of the updater, from plan to its one end."""

    id: str
    trigger: str
    started_at: datetime
    ended_at: datetime | None = None
    status: UpdateStatus = UpdateStatus.RUNNING
    reason: str | None = None
    parent_version: int
    published_version: int | None = None
    plan_json: str = "{}"
    """updater.plan's own account: targets, hints, methods, replay, hyper-parameters."""
    metrics_json: str = "{}"
    scorecard_json: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one update did with one interaction: the answer to `why`."""

    update_id: str
    interaction_id: str
    role: str
    """trained, replayed, gate, audit or left_out."""
    reason: str
    weight: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """policy@vN: immutable. The live version of a lineage is the one with the highest number."""

    number: int
    parent: int | None
    origin: VersionOrigin
    update_id: str | None = None
    copied_from: int | None = None
    """For a rollback: the number whose bytes these are."""
    adapter_path: str | None = None
    """Directory in PEFT format, relative to the data directory; None for v0."""
    sha256: str | None = None
    """Of adapter_model.safetensors."""
    base_fingerprint: str
    created_at: datetime
    note: str = ""

    @property
    def name(self) -> str:
        return f"policy@v{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """A vector of one interaction under one embedder and for one use."""

    interaction_id: str
    embed_id: str
    """Fingerprint of the embedder's weights and settings: vectors of different ids are never compared."""
    kind: str
    """`request` (the user's turn alone: clustering) or `context` (previous turn + turn: recall)."""
    vector: tuple[float, ...] = field(repr=False)
    """(D,) unit length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """One key that may use the HTTP interface. The key itself is kept nowhere."""

    id: str
    """Its name in records and logs, and the principal of what is asked with it."""
    sha256: str
    """Hex digest of the key."""
    scope: Scope
    learn: bool = True
    """False: nothing served under it is ever trained on."""
    requests_per_minute: int = 0
    """0: no limit."""
    tokens_per_day: int = 0
    """Sampled tokens over the last 24 hours; 0: no limit."""
    created_at: datetime
    revoked_at: datetime | None = None
