"""One record of each kind, as an operator would meet them."""

from datetime import UTC, datetime

from agent.why import Why
from memory.records import (
    Assignment,
    Cluster,
    Evidence,
    FailureMode,
    Feedback,
    Interaction,
    Message,
    Reflection,
    ReflectionPass,
    SamplingParams,
    Update,
    Use,
    Verdict,
    Version,
)
from memory.states import EvidenceKind, FinishReason, PassStatus, Remedy, Split, UpdateStatus, VersionOrigin

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

INTERACTION = Interaction(
    id="int_1",
    request_id="req_1",
    principal="local/ada",
    session_id="ses_1",
    created_at=NOW,
    completed_at=NOW,
    model="policy",
    messages=(Message(role="user", content="What is a [bold]glacier[/bold]?"),),
    prompt_token_ids=(1, 2),
    token_ids=(3, 4, 5),
    logprobs=(-0.1, -0.2, -0.3),
    text="A river of ice.",
    sampling=SamplingParams(),
    policy_version=2,
    base_fingerprint="feed",
    finish_reason=FinishReason.STOP,
)
CLUSTER = Cluster(
    id="clu_1", label="what is, explain", centroid=(), size=44, num_principals=7, created_at=NOW, updated_at=NOW
)
VERDICT = Verdict(
    id="ver_1", created_at=NOW, pass_id="pass_1", interaction_id="int_1", score=0.1, reasons=("next turn: too long",),
    hint="One short sentence, please.",
)  # fmt: skip
REFLECTION = Reflection(
    id="ref_1", created_at=NOW, pass_id="pass_1", cluster_id="clu_1", label="what is, explain", num_interactions=44,
    num_judged=40, num_principals=7, score=0.2, score_low=0.1, score_high=0.35,
    failure_modes=(FailureMode(label="too long", count=30, evidence_ids=("evi_1",)),),
    diagnosis="Six of seven users want shorter answers.", remedy=Remedy.WEIGHTS, num_proposed=24,
    left_out=(("held out", 16),),
)  # fmt: skip
UPDATE = Update(
    id="upd_1", trigger="manual", started_at=NOW, ended_at=NOW, status=UpdateStatus.PUBLISHED, parent_version=2,
    published_version=3, reason="better on what is, explain", plan_json='{"hint": "One short sentence"}',
)  # fmt: skip
VERSION = Version(
    number=3, parent=2, origin=VersionOrigin.UPDATE, update_id="upd_1", sha256="ab" * 32, base_fingerprint="feed",
    created_at=NOW,
)  # fmt: skip
DONE_PASS = ReflectionPass(
    id="pass_1", trigger="manual", started_at=NOW, ended_at=NOW, status=PassStatus.DONE, num_interactions=60,
    num_verdicts=50,
)  # fmt: skip
WHY = Why(
    interaction=INTERACTION,
    next_turn_id="int_2",
    feedback=(Feedback(id="fb_1", created_at=NOW, principal="p", interaction_id="int_1", score=-1.0, comment="Long!"),),
    evidence=(
        Evidence(
            id="evi_1", created_at=NOW, interaction_id="int_1", kind=EvidenceKind.NEXT_TURN, source_id="int_2",
            score=-0.8, text="Too long!",
        ),
    ),
    judgement=VERDICT,
    assignment=Assignment(interaction_id="int_1", group_id="grp_1", split=Split.TRAIN, cluster_id="clu_1"),
    cluster=CLUSTER,
    examples=(),
    uses=(Use(update_id="upd_1", interaction_id="int_1", role="trained", reason="hindsight", weight=1.0),),
    versions=(VERSION,),
)  # fmt: skip
