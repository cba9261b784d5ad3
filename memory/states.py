"""The words that records may hold where only some words make sense: purposes, outcomes, causes, ends."""

from enum import StrEnum


class Purpose(StrEnum):
    """Why an interaction exists."""

    LIVE = "live"
    PRACTICE = "practice"
    PROBE = "probe"


class Scope(StrEnum):
    """What an API key may do."""

    USER = "user"
    """Chat and give feedback, as one principal."""
    HARNESS = "harness"
    """The same for many: each `user` that a request names is a principal of its own."""
    ADMIN = "admin"
    """Everything, administration included; as a harness where it chats."""


class Outcome(StrEnum):
    """How serving one interaction ended, as far as serving can know."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """Who is answerable when an outcome is not ok."""

    NONE = "none"
    POLICY = "policy"
    ENVIRONMENT = "environment"
    INFRASTRUCTURE = "infrastructure"
    GRADER = "grader"
    CLIENT = "client"


class FinishReason(StrEnum):
    """Why a completion ended. `abort`: the client left or a stop string was seen by the daemon's caller."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


class Split(StrEnum):
    """What an interaction may be used for; fixed per near-duplicate group before reflection looks."""

    TRAIN = "train"
    GATE = "gate"
    AUDIT = "audit"


class EvidenceKind(StrEnum):
    FEEDBACK = "feedback"
    NEXT_TURN = "next_turn"
    TOOL = "tool"
    GRADER = "grader"


class Remedy(StrEnum):
    """What reflection proposes for a cluster."""

    WEIGHTS = "weights"
    MEMORY = "memory"
    FAULT = "fault"
    NOTHING = "nothing"


class Method(StrEnum):
    """How an example teaches."""

    HINDSIGHT = "hindsight_self_distillation"
    CORRECTION = "correction_distillation"
    REPLAY = "replay"


class PassStatus(StrEnum):
    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


class UpdateStatus(StrEnum):
    """The one end of an update, after `running`."""

    RUNNING = "running"
    PUBLISHED = "published"
    REJECTED = "rejected"
    SKIPPED = "skipped"
    FAILED = "failed"


class VersionOrigin(StrEnum):
    BASE = "base"
    UPDATE = "update"
    ROLLBACK = "rollback"
