"""Records as tests need them: everything has a plausible value, and what matters is named."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory.records import Evidence, Interaction, Message, SamplingParams, Verdict
from memory.states import EvidenceKind, FinishReason

T0 = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
DATA = Path(__file__).parent / "data"


def requests_of(kind: str) -> list[str]:
    found: list[str] = json.loads((DATA / "requests.json").read_text())[kind]
    return found


def rows_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def an_interaction(number: int, text: str = "What is a glacier?", **changes: Any) -> Interaction:
    """Interaction `i_NNNN`, served `number` minutes after T0, in a session of its own."""
    at = T0 + timedelta(minutes=number)
    values: dict[str, Any] = {
        "id": f"i_{number:04d}",
        "request_id": f"r_{number:04d}",
        "principal": "p1",
        "session_id": f"s_{number:04d}",
        "created_at": at,
        "completed_at": at,
        "model": "policy",
        "messages": (Message(role="user", content=text),),
        "prompt_token_ids": (1, 2, 3),
        "token_ids": tuple(range(10, 50)),
        "logprobs": (-0.5,) * 40,
        "text": f"An answer to: {text}",
        "sampling": SamplingParams(),
        "policy_version": 0,
        "base_fingerprint": "base",
        "finish_reason": FinishReason.STOP,
    }
    return Interaction(**{**values, **changes})


def a_follow_up(number: int, before: Interaction, turn: str, **changes: Any) -> Interaction:
    """The next turn of `before`'s session."""
    messages = (
        *before.messages,
        Message(role="assistant", content=before.text),
        Message(role="user", content=turn),
    )
    shared = {"principal": before.principal, "session_id": before.session_id, "parent_id": before.id}
    return an_interaction(number, turn, **{**shared, "messages": messages, **changes})


def an_evidence(interaction_id: str, **changes: Any) -> Evidence:
    values: dict[str, Any] = {
        "id": f"ev_{interaction_id}",
        "created_at": T0,
        "interaction_id": interaction_id,
        "kind": EvidenceKind.FEEDBACK,
        "source_id": f"src_{interaction_id}",
    }
    return Evidence(**{**values, **changes})


def a_verdict(interaction_id: str, score: float, **changes: Any) -> Verdict:
    values: dict[str, Any] = {
        "id": f"ver_{interaction_id}",
        "created_at": T0,
        "pass_id": "pass_1",
        "interaction_id": interaction_id,
        "score": score,
        "reasons": ("said so",),
        "evidence_ids": (f"ev_{interaction_id}",),
    }
    return Verdict(**{**values, **changes})
