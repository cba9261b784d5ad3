"""The scorecard: live against candidate, cluster by cluster, never pooled, and why it passed or not. JSON on disk."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class Rung(StrEnum):
    """What scored an answer that nobody rated, strongest first."""

    HINDSIGHT = "hindsight log-ratio of fresh answers"
    CORRECTION = "likelihood of held-out corrections"
    DIVERGENCE = "teacher-forced divergence from live"
    BEHAVIOUR = "length, ending and naturalness of fresh answers, and leak of the hint"


class State(StrEnum):
    IMPROVED = "improved"
    NOT_IMPROVED = "not improved"
    UNHARMED = "unharmed"
    HARMED = "harmed"
    INSUFFICIENT = "insufficient"
    """Too few items for a test: covered by replay, and shown."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Measure(_Frozen):
    """One figure of one cluster, live and candidate, paired by prompt."""

    name: str
    unit: str
    live: float
    candidate: float
    p_value: float | None = None
    harmful: bool = False


class ClusterScore(_Frozen):
    cluster_id: str
    label: str
    role: str
    """target or protected."""
    rung: Rung
    state: State
    num_prompts: int
    num_samples: int
    measures: tuple[Measure, ...]
    reason: str


class SelectionPoint(_Frozen):
    """One candidate on the selection slice."""

    name: str
    gap_closed: float
    """Share of the way from live to teacher, mean over targets: 1 is the teacher itself."""


class Scorecard(_Frozen):
    candidate: str
    passed: bool
    reasons: tuple[str, ...]
    """Why it did not pass; empty when it did."""
    clusters: tuple[ClusterScore, ...]
    selection: tuple[SelectionPoint, ...] = ()
    audit: tuple[ClusterScore, ...] = ()
    """The same scores on audit items, which neither selection nor gate saw: the figures to report."""
