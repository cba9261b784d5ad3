"""POST /v1/feedback."""

import pytest

from tests.agent.edge import Edge


async def test_an_answer_is_named_in_three_ways(edge: Edge) -> None:
    """By interaction, by response and choice, by session and turn: all find the same row."""
    first = await edge.chat(n=2)
    ids = first["headers"]["X-Interaction-Id"].split(",")
    session = first["headers"]["X-Session-Id"]
    for body, expected in (
        ({"interaction_id": ids[1]}, ids[1]),
        ({"response_id": first["id"], "index": 1}, ids[1]),
        ({"response_id": first["id"]}, ids[0]),
        ({"session_id": session, "index": 0}, ids[0]),
    ):
        status, answer, _ = await edge.post("/v1/feedback", {**body, "score": -1, "comment": "too long"})
        assert (status, answer["interaction_id"]) == (200, expected)


async def test_all_that_was_said_is_durable_when_answered(edge: Edge) -> None:
    """Score, comment, correction, metric, channel and who said it are in the store."""
    await edge.chat(user="p1")
    identity = edge.stored[0].id
    said = {
        "interaction_id": identity,
        "score": -0.5,
        "comment": "too long",
        "correction": "Ice.",
        "metric": {"name": "words", "value": 7},
        "channel": "chat",
        "user": "p1",
    }
    status, answer, _ = await edge.post("/v1/feedback", said)
    [row] = (await edge.store.feedback.for_interactions([identity]))[identity]
    assert status == 200
    assert row.id == answer["id"]
    assert (row.score, row.comment, row.correction) == (-0.5, "too long", "Ice.")
    assert (row.metric_name, row.metric_value, row.channel) == ("words", 7, "chat")
    assert row.principal == "local/p1"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"interaction_id": "int_1"}, 400),
        ({"interaction_id": "int_1", "session_id": "ses_1", "score": 1}, 400),
        ({"interaction_id": "int_1", "score": 2}, 400),
        ({"interaction_id": "int_1", "score": "good"}, 400),
        ({"interaction_id": "int_nowhere", "score": 1}, 404),
        ({"response_id": "chatcmpl-nowhere", "score": 1}, 404),
        ({"session_id": "ses_nowhere", "score": 1}, 404),
    ],
)
async def test_feedback_that_says_nothing_or_means_nothing_is_refused(
    edge: Edge, body: dict[str, object], status: int
) -> None:
    """Exactly one answer must be named and something said of it."""
    got, answer, _ = await edge.post("/v1/feedback", body)
    assert got == status
    assert answer["error"]["message"]
