"""Records with everything a test does not care about filled in."""

from datetime import UTC, datetime, timedelta
from typing import Any

from memory.records import Interaction, Message, SamplingParams, Timings
from memory.states import FinishReason

START = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)


def user(text: str) -> Message:
    return Message(role="user", content=text)


def assistant(text: str) -> Message:
    return Message(role="assistant", content=text)


def an_interaction(identity: str = "int_1", *messages: Message, **fields: Any) -> Interaction:
    """One answered turn; the prompt grows with the messages, as real ones do."""
    said = messages or (user("What is a glacier?"),)
    values: dict[str, Any] = {
        "id": identity,
        "request_id": f"req_{identity}",
        "principal": "p1",
        "session_id": "ses_1",
        "created_at": START,
        "completed_at": START + timedelta(seconds=1),
        "model": "agent",
        "messages": said,
        "prompt_token_ids": tuple(range(10 * len(said))),
        "token_ids": (7, 8, 2),
        "logprobs": (-0.5, -0.25, -2.0),
        "text": "A slow river of ice.",
        "sampling": SamplingParams(stop=("###",), logit_bias=((5, -1.5),)),
        "policy_version": 0,
        "base_fingerprint": "base",
        "finish_reason": FinishReason.STOP,
        "timings": Timings(ttft_s=0.25, total_s=1.0),
    }
    return Interaction(**(values | fields))


def a_continuation(parent: Interaction, identity: str, said: str, **fields: Any) -> Interaction:
    """The next turn of the parent's session, its whole history sent again as clients do."""
    messages = (*parent.messages, assistant(parent.text), user(said))
    prompt = (*parent.prompt_token_ids, *parent.token_ids, 100, 101, len(messages))
    return an_interaction(
        identity,
        *messages,
        **{"parent_id": parent.id, "session_id": parent.session_id, "prompt_token_ids": prompt} | fields,
    )
