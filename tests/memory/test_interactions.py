"""The table of interactions, on a real database."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from memory import schema
from memory.lexical import match_expression
from memory.records import Feedback, Interaction
from memory.states import Cause, FinishReason, Outcome, Purpose
from memory.store import Store
from tests.memory.builders import START, a_continuation, an_interaction, assistant, user


async def add_session(store: Store, num_turns: int) -> list[Interaction]:
    """A session of that many turns, each resending the history."""
    turns = [an_interaction("int_0")]
    for n in range(1, num_turns):
        turns.append(a_continuation(turns[-1], f"int_{n}", f"question {n}"))
    for turn in turns:
        await store.interactions.add([turn])
    return turns


async def test_every_field_comes_back(store: Store) -> None:
    """What is read is what was written, in all fields."""
    full = an_interaction(
        key_id="key_1",
        tools_json="[]",
        system_prompt="Be kind.",
        recalled_ids=("int_a", "int_b"),
        num_unsent=1,
        constraint_id="con_1",
        finish_reason=FinishReason.ABORT,
        outcome=Outcome.FAILED,
        cause=Cause.CLIENT,
        error="left",
        idempotency_key="once",
        learn=False,
        text="zero \x00 and émoji 🎉",
    )
    await store.interactions.add([full])
    assert await store.interactions.get(full.id) == full


async def test_long_sessions_come_back_and_stay_small(store: Store) -> None:
    """Each turn of a session longer than a chain is whole when read; rows do not grow with the history."""
    turns = await add_session(store, 70)
    assert await store.interactions.session("p1", "ses_1") == turns
    assert await store.interactions.get("int_69") == turns[-1]
    suffixes = await store.interactions._database.read(
        lambda connection: list(connection.execute(select(schema.interactions.c.prompt_suffix)).scalars())
    )
    assert sorted(map(len, suffixes))[-4] < 10  # but for the three rows that begin a chain


async def test_a_repeat_is_ignored(store: Store) -> None:
    """A retried write stores nothing twice and changes nothing."""
    first = an_interaction()
    await store.interactions.add([first, first])
    await store.interactions.add([an_interaction(text="changed")])
    assert await store.interactions.get(first.id) == first
    assert await store.interactions.count() == 1
    assert len(await store.interactions.search_lexical("p1", "glacier", limit=9)) == 1


async def test_a_batch_is_all_or_nothing(store: Store) -> None:
    """A row that cannot be stored takes its batch with it."""
    broken = an_interaction("int_2", session_id=None)
    with pytest.raises(IntegrityError):
        await store.interactions.add([an_interaction("int_1"), broken])
    assert await store.interactions.count() == 0


async def test_others_cannot_read_what_is_not_theirs(store: Store) -> None:
    """Every question that names a principal is answered from that principal's rows alone."""
    mine, theirs = an_interaction("int_1"), an_interaction("int_2", principal="p2", idempotency_key="k")
    await store.interactions.add([mine, theirs])
    table = store.interactions
    assert await table.get("int_2", principal="p1") is None
    assert await table.by_idempotency_key("p1", "k") == []
    assert await table.session("p1", "ses_1") == [mine]
    assert await table.choice("p1", theirs.request_id, 0) is None
    assert await table.recent(9, principal="p1") == [mine]
    assert [one for one, _ in await table.search_lexical("p1", "glacier ice", limit=9)] == ["int_1"]
    history = (*mine.messages, assistant(mine.text), user("And?"))
    assert await table.continued_by("p2", history) == theirs
    assert await table.continued_by("p3", history) is None


async def test_nobody_leans_on_another_principals_row(store: Store) -> None:
    """A parent of somebody else is no base for a prompt: each can be erased alone."""
    parent = an_interaction("int_1", principal="p2")
    child = a_continuation(parent, "int_2", "And?")
    await store.interactions.add([parent, child])
    depths = await store.interactions._database.read(
        lambda connection: list(connection.execute(select(schema.interactions.c.chain_depth)).scalars())
    )
    assert depths == [0, 0]
    assert await store.interactions.get("int_2") == child


async def test_a_conversation_finds_what_it_continues(store: Store) -> None:
    """The resent history leads to the newest interaction that left it behind."""
    turns = await add_session(store, 2)
    twin = an_interaction("int_twin", session_id="ses_2")
    await store.interactions.add([twin])
    found = store.interactions.continued_by
    assert await found("p1", (*turns[1].messages, assistant(turns[1].text + "\n"), user("More"))) == turns[1]
    assert await found("p1", turns[1].messages) == twin
    assert await found("p1", (user("Something new"),)) is None
    assert await found("p1", (*turns[0].messages, assistant("Not what was said"), user("More"))) is None


async def test_choices_of_one_request(store: Store) -> None:
    """n > 1 gives one row a choice, found by index and by idempotency key."""
    choices = [
        an_interaction(f"int_{n}", request_id="req", choice_index=n, idempotency_key="once", text=f"answer {n}")
        for n in range(3)
    ]
    await store.interactions.add(choices)
    assert await store.interactions.choice("p1", "req", 2) == choices[2]
    assert await store.interactions.by_idempotency_key("p1", "once") == choices


async def test_next_turn_is_the_first_that_continued(store: Store) -> None:
    """A conversation that forked has the earlier fork as its next turn."""
    first, second = await add_session(store, 2)
    fork = a_continuation(first, "int_fork", "Something else")
    await store.interactions.add([fork])
    assert await store.interactions.next_turns(["int_0", "int_1"]) == {"int_0": second}
    assert await store.interactions.session_tail("p1", "ses_1") == fork


async def test_closed_is_continued_commented_or_idle(store: Store) -> None:
    """An interaction may still get its evidence until one of the three happened; practice never counts."""
    await add_session(store, 2)
    await store.interactions.add(
        [
            an_interaction("int_rated", session_id="ses_2"),
            an_interaction("int_open", session_id="ses_3"),
            an_interaction("int_practice", session_id="ses_4", purpose=Purpose.PRACTICE),
        ]
    )
    rating = Feedback(id="fb_1", created_at=START, principal="p1", interaction_id="int_rated", score=1.0)
    await store.feedback.add(rating)
    early = await store.interactions.closed(now=START + timedelta(seconds=30), idle_s=60)
    late = await store.interactions.closed(now=START + timedelta(seconds=62), idle_s=60)
    assert [one.id for one in early] == ["int_0", "int_rated"]
    assert [one.id for one in late] == ["int_0", "int_1", "int_rated", "int_open"]


async def test_counting_goes_on_from_a_cursor(store: Store) -> None:
    """The clock counts what arrived after the last pass; practice does not count."""
    assert await store.interactions.newest_id() is None
    await add_session(store, 3)
    await store.interactions.add([an_interaction("int_practice", purpose=Purpose.PRACTICE)])
    assert await store.interactions.newest_id() == "int_2"
    assert await store.interactions.count() == 3
    assert await store.interactions.count(after_id="int_0") == 2
    assert await store.interactions.count(after_id="int_2") == 0


async def test_search_stems_and_ranks(store: Store) -> None:
    """Endings do not matter, more matching words rank higher, and the previous turn's words find the answer."""
    await store.interactions.add(
        [
            an_interaction("int_dog", user("My dog is called Rex"), text="Nice."),
            an_interaction("int_dogs", user("Dogs love walking"), text="They do."),
            *(an_interaction(f"int_{n}", user(f"Filler number {n}"), text="ok") for n in range(10)),
        ]
    )
    parent = an_interaction("int_a", user("What should we name the boat?"), text="Tell me more.")
    await store.interactions.add([parent, a_continuation(parent, "int_b", "Rather Aurora", text="Good.")])
    search = store.interactions.search_lexical
    assert [one for one, _ in await search("p1", "walked dogs", limit=9)] == ["int_dogs", "int_dog"]
    assert [one for one, _ in await search("p1", "the boats name", limit=9)] == ["int_a", "int_b"]
    scores = [score for _, score in await search("p1", "dog", limit=9)]
    assert scores == sorted(scores, reverse=True)
    assert await search("p1", "", limit=9) == await search("p1", "?!", limit=9) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(
    query=st.text(max_size=40) | st.sampled_from(['"', "a OR b", "owner : x", "NEAR(a b)", "^a*", "a-b:c", "{x} : y"])
)
async def test_any_text_is_a_safe_query(store: Store, query: str) -> None:
    """No query can be read as search syntax: each either matches or finds nothing."""
    await store.interactions.search_lexical("p1", query, limit=3)


@pytest.mark.parametrize("principal", ["p1", "key_1/user 7", '"', "owner:*", "ä\n"])
def test_owner_terms_are_words(principal: str) -> None:
    """A principal's name, whatever it is, becomes one harmless word."""
    expression = match_expression(principal, "word")
    assert expression is not None
    assert expression.split(" AND ")[0].removeprefix("owner : ").isalnum()


async def test_text_is_found_in_the_same_commit(store: Store) -> None:
    """What is stored can be searched: there is no second index that could fall behind."""

    def count(connection: Connection) -> tuple[int, int]:
        tables = ("interactions", schema.LEXICAL_TABLE)
        rows = [connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one() for table in tables]
        return rows[0], rows[1]

    await add_session(store, 4)
    assert await store.interactions._database.read(count) == (4, 4)
