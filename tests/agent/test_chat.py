"""POST /v1/chat/completions as clients see it, and what is stored of it."""

import asyncio
import json

import pytest

from memory.states import Cause, FinishReason, Outcome
from tests.agent.edge import SYSTEM_PROMPT, Edge, a_chat, add_version, events_of
from tests.fakes import LOGPROB


async def test_answer_has_the_fields_that_clients_read(edge: Edge) -> None:
    """A whole answer carries id, object, model, choice, usage and the headers that name interaction and version."""
    answer = await edge.chat()
    assert answer["id"].startswith("chatcmpl-")
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "policy@v0"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": edge.engine.says, "refusal": None}
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"]
    assert answer["headers"]["X-Policy-Version"] == "policy@v0"
    assert answer["headers"]["X-Request-Id"].startswith("req_")


async def test_stored_row_is_what_was_served(edge: Edge) -> None:
    """The row named by the header holds exactly the tokens the engine read and sampled."""
    answer = await edge.chat("How do I boil an egg?", temperature=0.3, seed=7, user="p1")
    row = await edge.store.interactions.get(answer["headers"]["X-Interaction-Id"])
    assert row is not None
    request = edge.engine.requests[0]
    assert row.prompt_token_ids == request.prompt_token_ids
    assert row.sampling.seed == 7
    assert row.sampling.temperature == 0.3
    assert row.principal == "local/p1"
    assert row.text == edge.engine.says
    assert len(row.token_ids) == len(row.logprobs) == answer["usage"]["completion_tokens"]
    assert (row.outcome, row.finish_reason, row.learn) == (Outcome.OK, FinishReason.STOP, True)


async def test_stream_has_the_shape_that_clients_rely_on(edge: Edge) -> None:
    """Role first, one id, finish_reason null until a chunk with an empty delta, usage last, then [DONE]."""
    body = a_chat(stream=True, stream_options={"include_usage": True})
    async with edge.http.post(f"{edge.url}/v1/chat/completions", json=body) as response:
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert response.headers["X-Interaction-Id"].startswith("int_")
        events = events_of(await response.text())
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    assert chunks[-2]["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    spoken = chunks[1:-2]
    assert all(chunk["choices"][0]["finish_reason"] is None and chunk["usage"] is None for chunk in spoken)
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in spoken) == edge.engine.says


async def test_stream_never_splits_a_character(edge: Edge) -> None:
    """Text of several bytes a character comes whole, whatever tokens it is made of."""
    edge.engine.says = "Grüße 你好 🙂 ende"
    async with edge.http.post(f"{edge.url}/v1/chat/completions", json=a_chat(stream=True)) as response:
        chunks = [json.loads(event) for event in events_of(await response.text())[:-1]]
    pieces = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks]
    assert "".join(pieces) == edge.engine.says
    assert not any("\ufffd" in piece for piece in pieces)


async def test_row_is_durable_before_the_last_event(edge: Edge) -> None:
    """When [DONE] arrives, the interaction can be read from the store."""
    async with edge.http.post(f"{edge.url}/v1/chat/completions", json=a_chat(stream=True)) as response:
        identity = response.headers["X-Interaction-Id"]
        async for line in response.content:
            if b'"finish_reason":"stop"' in line:
                assert await edge.store.interactions.get(identity) is not None
                return
    pytest.fail("no finishing chunk")


async def test_stop_string_ends_the_answer_and_is_not_sent(edge: Edge) -> None:
    """Text ends before the stop string, sampling is aborted, and what was sampled past it is stored as unsent."""
    edge.engine.says = "One. Two. END and much more that nobody asked for."
    answer = await edge.chat(stop=[" END"])
    assert answer["choices"][0]["message"]["content"] == "One. Two."
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert edge.engine.num_aborted == 1
    [row] = edge.stored
    assert row.num_unsent >= 1
    assert row.text == "One. Two."
    assert len(row.token_ids) < len("One. Two. END and much more")


async def test_every_choice_is_a_row_of_its_own(edge: Edge) -> None:
    """n choices have n ids, n seeds and one request id."""
    answer = await edge.chat(n=3, seed=10)
    ids = answer["headers"]["X-Interaction-Id"].split(",")
    rows = [await edge.store.interactions.get(identity) for identity in ids]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert [row.sampling.seed for row in rows if row] == [10, 11, 12]
    assert {row.request_id for row in rows if row} == {answer["id"]}


async def test_logprobs_name_tokens_and_alternatives(edge: Edge) -> None:
    """Each sent token comes with its text, bytes, raw logprob and as many alternatives as asked for."""
    answer = await edge.chat(logprobs=True, top_logprobs=2)
    content = answer["choices"][0]["logprobs"]["content"]
    assert b"".join(bytes(token["bytes"]) for token in content).decode() == edge.engine.says
    assert all(token["logprob"] == LOGPROB and len(token["top_logprobs"]) == 2 for token in content)


async def test_max_tokens_ends_with_length(edge: Edge) -> None:
    """Either name of the limit cuts the answer and says so."""
    for name in ("max_tokens", "max_completion_tokens"):
        _, answer, _ = await edge.post("/v1/chat/completions", a_chat() | {name: 3})
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"]["completion_tokens"] == 3


async def test_agent_adds_the_system_prompt_and_policy_adds_nothing(edge: Edge) -> None:
    """`agent` puts the operator's prompt before the chat, in one message with the client's; `policy` does not."""
    await edge.chat(history=[{"role": "system", "content": "Speak Dutch."}], model="agent")
    await edge.chat(model="policy")
    with_prompt, without = edge.stored
    assert with_prompt.system_prompt == SYSTEM_PROMPT
    assert without.system_prompt is None
    assert [message.content for message in with_prompt.messages] == ["Speak Dutch.", "What is a glacier?"]
    assert len(with_prompt.prompt_token_ids) > len(without.prompt_token_ids)


async def test_recalled_memory_is_added_for_agent_alone(edge: Edge) -> None:
    """What the same principal said in another session comes back for `agent`, and never for another principal."""
    await edge.chat("My glacier expedition to Norway starts in June.", user="p1", model="agent")
    for user, model, expected in (("p1", "agent", 1), ("p1", "policy", 0), ("p2", "agent", 0)):
        await edge.chat("When does my glacier expedition to Norway start?", user=user, model=model)
        assert len(edge.stored[-1].recalled_ids) == expected, (user, model)


async def test_pinned_versions_and_base_are_served_as_asked(edge: Edge) -> None:
    """A pinned version is loaded on demand and named in the answer; base names itself."""
    await add_version(edge.store, 1)
    pinned = await edge.chat(model="policy@v1")
    base = await edge.chat(model="base")
    assert (pinned["model"], base["model"]) == ("policy@v1", "base")
    assert [request.model for request in edge.engine.requests] == ["policy@v1", "base"]
    assert [row.policy_version for row in edge.stored] == [1, 0]


async def test_follow_up_continues_the_session_by_what_was_said(edge: Edge) -> None:
    """Without a header, a chat that repeats the history is the next turn of the same session."""
    first = await edge.chat("What is a glacier?", user="p1")
    history = [
        {"role": "user", "content": "What is a glacier?"},
        {"role": "assistant", "content": first["choices"][0]["message"]["content"]},
    ]
    second = await edge.chat("Shorter please.", history=history, user="p1")
    assert second["headers"]["X-Session-Id"] == first["headers"]["X-Session-Id"]
    assert edge.stored[1].parent_id == edge.stored[0].id
    stranger = await edge.chat("Shorter please.", history=history, user="p2")
    assert stranger["headers"]["X-Session-Id"] != first["headers"]["X-Session-Id"]


async def test_store_false_is_kept_out_of_learning(edge: Edge) -> None:
    """`store: false` is stored, marked as not to be learnt from."""
    await edge.chat(store=False)
    assert edge.stored[0].learn is False


async def test_client_that_leaves_aborts_the_engine_and_is_stored(edge: Edge) -> None:
    """A closed connection ends sampling; what was sampled is stored with the client as the cause."""
    edge.engine.says = "word " * 40
    async with edge.http.post(f"{edge.url}/v1/chat/completions", json=a_chat(stream=True)) as response:
        await response.content.readline()
        edge.engine.may_go_on.clear()
        response.close()
    await edge.responder.idle()
    [row] = edge.stored
    assert (row.finish_reason, row.cause, row.outcome) == (FinishReason.ABORT, Cause.CLIENT, Outcome.UNKNOWN)
    assert edge.engine.num_aborted == 1


async def test_stream_goes_on_over_a_restart_of_the_engine(edge: Edge) -> None:
    """An engine that dies mid-stream costs the client nothing: the answer is whole and no token comes twice."""
    edge.engine.break_after = 4
    answer = await edge.chat()
    assert answer["choices"][0]["message"]["content"] == edge.engine.says
    first, second = edge.engine.requests
    assert second.prompt_token_ids == first.prompt_token_ids + edge.stored[0].token_ids[:4]
    assert second.sampling.max_tokens == first.sampling.max_tokens - 4


async def test_engine_that_refuses_gives_an_error_in_both_forms(edge: Edge) -> None:
    """A failure is a 500 for a whole answer, an error event in a stream, and a failed row in both cases."""
    edge.engine.refuses = "no"
    status, answer, _ = await edge.post("/v1/chat/completions", a_chat())
    assert status == 500
    assert answer["error"]["code"] == "engine_error"
    async with edge.http.post(f"{edge.url}/v1/chat/completions", json=a_chat(stream=True)) as response:
        events = events_of(await response.text())
    assert json.loads(events[-2])["error"]["message"] == "no"
    assert events[-1] == "[DONE]"
    assert [(row.outcome, row.cause) for row in edge.stored] == [(Outcome.FAILED, Cause.INFRASTRUCTURE)] * 2


async def test_draining_refuses_new_chats_and_ends_open_ones(edge: Edge) -> None:
    """New chats get 503 with a time to come back; an open one that is cut short says so and is stored."""
    edge.engine.may_go_on.clear()
    chatting = asyncio.create_task(edge.post("/v1/chat/completions", a_chat()))
    await edge.engine.was_asked.wait()
    edge.phase.is_draining = True
    status, refused, headers = await edge.post("/v1/chat/completions", a_chat())
    assert (status, refused["error"]["code"], headers["Retry-After"]) == (503, "draining", "2")
    edge.responder.abandon_all("the daemon is stopping")
    status, cut, _ = await chatting
    assert (status, cut["error"]["message"]) == (503, "the daemon is stopping")
    assert edge.stored[0].cause is Cause.INFRASTRUCTURE


async def test_repeated_idempotency_key_is_answered_once(edge: Edge) -> None:
    """The same key gives the stored answer, also while the first is under way; another request under it is refused."""
    twins = [edge.post("/v1/chat/completions", a_chat(), Idempotency_Key="k1") for _ in range(2)]
    (_, first, _), (_, second, _) = await asyncio.gather(*twins)
    status, replayed, headers = await edge.post("/v1/chat/completions", a_chat(), Idempotency_Key="k1")
    assert first["id"] == second["id"] == replayed["id"]
    assert replayed["choices"] == first["choices"]
    assert (status, headers["X-Interaction-Id"]) == (200, edge.stored[0].id)
    assert len(edge.engine.requests) == 1
    status, _, _ = await edge.post("/v1/chat/completions", a_chat("Another?"), Idempotency_Key="k1")
    assert status == 422


@pytest.mark.parametrize(
    ("change", "status", "param"),
    [
        ({"model": "gpt-9"}, 404, "model"),
        ({"model": "policy@v9"}, 404, "model"),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "user"}]}, 400, "messages.0"),
        ({"messages": [{"role": "robot", "content": "x"}]}, 400, "messages.0.role"),
        ({"messages": [{"role": "user", "content": "word " * 4000}]}, 400, "messages"),
        ({"temperature": 2.5}, 400, "temperature"),
        ({"temperature": "1"}, 400, "temperature"),
        ({"n": 9}, 400, "n"),
        ({"n": True}, 400, "n"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"top_logprobs": 3}, 400, None),
        ({"logit_bias": {"x": 1}}, 400, "logit_bias.x.[key]"),
        ({"stop": ["a"] * 5}, 400, None),
        ({"seed": 2**70}, 400, "seed"),
        ({"tools": [{"type": "function"}]}, 400, "tools"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format.type"),
        ({"stream_options": {"include_usage": True}}, 400, None),
    ],
)
async def test_what_is_wrong_is_said_by_name(
    edge: Edge, change: dict[str, object], status: int, param: str | None
) -> None:
    """Out of bounds, of the wrong type, unknown or unsupported: an error in OpenAI's shape that names the parameter."""
    got, answer, _ = await edge.post("/v1/chat/completions", a_chat() | change)
    assert got == status
    assert set(answer["error"]) == {"message", "type", "param", "code"}
    if param is not None:
        assert answer["error"]["param"] == param
    assert edge.stored == []


async def test_unknown_fields_are_ignored(edge: Edge) -> None:
    """Clients send fields we have never heard of."""
    await edge.chat(service_tier="auto", tools=[], response_format={"type": "text"}, metadata={"a": "b"}, xyzzy=1)
