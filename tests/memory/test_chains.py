"""Rows that lean on their parents, put together again."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memory.chains import MAX_DEPTH, answered_part, hash_transcript, make_link, restore, transcript
from memory.records import Interaction, Message
from memory.rows import values_of
from tests.memory.builders import a_continuation, an_interaction, assistant, user

texts = st.text(max_size=6)
some_messages = st.lists(
    st.builds(Message, role=st.sampled_from(["system", "user", "assistant"]), content=texts), max_size=5
)
some_ids = st.lists(st.integers(0, 3), max_size=8).map(tuple)


def as_row(interaction: Interaction, parent: Interaction | None, depth: int) -> dict[str, Any]:
    row = values_of(interaction) | values_of(make_link(interaction, parent, parent_depth=depth))
    del row["messages"], row["prompt_token_ids"]
    return row | {"seq": 0, "transcript_sha256": b""}


@given(st.lists(st.tuples(some_messages, some_ids, some_ids, texts), min_size=1, max_size=5))
def test_any_chain_is_restored_as_it_was(turns: list[tuple[list[Message], Any, Any, str]]) -> None:
    """Whatever a client resends, kept, cut or rewritten, comes back exactly."""
    chain: list[Interaction] = []
    for n, (messages, prompt, completion, text) in enumerate(turns):
        parent_id = chain[-1].id if chain else None
        resent = (*transcript(chain[-1]), *messages) if chain and n % 2 else tuple(messages)
        fields = {"prompt_token_ids": prompt, "token_ids": completion, "text": text, "parent_id": parent_id}
        chain.append(an_interaction(f"int_{n}", **fields, messages=resent))
    rows = [as_row(one, chain[n - 1] if n else None, n - 1) for n, one in enumerate(chain)]
    assert list(restore(rows).values()) == chain


def test_a_continuation_keeps_only_what_is_new() -> None:
    """A row of a long session holds its own turn, not the history."""
    parent = an_interaction()
    link = make_link(a_continuation(parent, "int_2", "And a volcano?"), parent, parent_depth=0)
    assert link.messages_suffix == (user("And a volcano?"),)
    assert link.prompt_suffix == (100, 101, 3)
    assert link.chain_depth == 1


def test_a_long_chain_begins_anew() -> None:
    """No read has to fetch more than MAX_DEPTH rows."""
    parent = an_interaction()
    link = make_link(a_continuation(parent, "int_2", "And?"), parent, parent_depth=MAX_DEPTH - 1)
    assert (link.chain_depth, link.messages_shared, link.prompt_shared) == (0, 0, 0)


def test_transcript_hash_ignores_outer_space_only() -> None:
    """Clients trim answers; any other change is another conversation."""
    conversation = [user("Hello"), assistant(" Hi there.\n")]
    same, other = [user("Hello"), assistant("Hi there.")], [user("Hello"), assistant("Hi  there.")]
    assert hash_transcript(conversation) == hash_transcript(same) != hash_transcript(other)
    assert hash_transcript([user("ab"), user("c")]) != hash_transcript([user("a"), user("bc")])


def test_answered_part_ends_with_the_last_answer() -> None:
    """New turns are what follows the last assistant message."""
    history = [user("a"), assistant("b"), user("c"), assistant("d")]
    assert list(answered_part([*history, user("e"), user("f")])) == history
    assert list(answered_part([user("e")])) == []
