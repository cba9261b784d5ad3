"""The same log with other feedback, through real stores."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.learning.log_rewrite import permuted, rewrite_log, with_other_words
from memory.records import Feedback, Interaction, Message, SamplingParams
from memory.states import FinishReason
from memory.store import open_store
from memory.tokens import Tokenizer

START = datetime(2026, 1, 1, tzinfo=UTC)
NUM_VISITS = 6


def served(tokenizer: Tokenizer, name: str, number: int, messages: tuple[Message, ...]) -> Interaction:
    at = START + timedelta(seconds=number)
    return Interaction(
        id=name,
        request_id=f"req_{name}",
        principal=f"local/user{number}",
        session_id=f"session-{number}",
        parent_id=f"a{number}" if name.startswith("b") else None,
        created_at=at,
        completed_at=at,
        model="policy",
        messages=messages,
        prompt_token_ids=tokenizer.render_chat(messages),
        token_ids=(5, 6, number),
        logprobs=(-1.0, -2.0, -3.0),
        text=f"answer {number}",
        sampling=SamplingParams(),
        policy_version=0,
        base_fingerprint="base",
        finish_reason=FinishReason.LENGTH,
    )


async def write_log(data_dir: Path, tokenizer: Tokenizer) -> None:
    """Half of the answers get a next turn, the other half a thumb."""
    async with open_store(data_dir) as store:
        for number in range(NUM_VISITS):
            question = Message(role="user", content=f"question {number}")
            await store.interactions.add([served(tokenizer, f"a{number}", number, (question,))])
            if number % 2:
                answer = Message(role="assistant", content=f"answer {number}")
                messages = (question, answer, Message(role="user", content=f"too long {number}"))
                await store.interactions.add([served(tokenizer, f"b{number}", number, messages)])
            else:
                thumb = Feedback(
                    id=f"f{number}",
                    created_at=START,
                    principal=f"local/user{number}",
                    interaction_id=f"a{number}",
                    score=1,
                )
                await store.feedback.add(thumb)


async def read_log(data_dir: Path) -> tuple[dict[str, Interaction], list[Interaction], dict[str, list[Feedback]]]:
    async with open_store(data_dir) as store:
        rows = await store.interactions.recent(100)
        first = {row.id: row for row in rows if row.parent_id is None}
        feedback = await store.feedback.for_interactions(list(first))
        return first, [row for row in rows if row.parent_id is not None], feedback


async def test_permuted_log_keeps_answers_and_deals_out_reactions(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """Questions and sampled tokens stay; every reaction is still there once, whole, as the reaction to some answer."""
    await write_log(tmp_path / "old", tokenizer)
    count = await rewrite_log(tmp_path / "old", tmp_path / "new", rewrite=permuted(seed=3), tokenizer=tokenizer)
    old_first, old_next, old_feedback = await read_log(tmp_path / "old")
    first, next_turns, feedback = await read_log(tmp_path / "new")
    assert count == NUM_VISITS
    assert first == old_first
    assert Counter(row.last_user_text for row in next_turns) == Counter(row.last_user_text for row in old_next)
    assert len([row for rows in feedback.values() for row in rows]) == len(old_feedback)
    assert {row.parent_id for row in next_turns} != {row.parent_id for row in old_next}
    for row in next_turns:
        parent = first[row.parent_id or ""]
        assert (row.principal, row.session_id) == (parent.principal, parent.session_id)
        assert row.messages[: len(parent.messages)] == parent.messages
        assert row.messages[-2].content == parent.text
        assert row.prompt_token_ids == tokenizer.render_chat(row.messages)
        assert row.created_at > parent.created_at


async def test_other_words_change_words_only(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """A wording that is named is replaced where it was said, and nothing else changes."""
    await write_log(tmp_path / "old", tokenizer)
    rewrite = with_other_words({"too long 1": "tell me more"})
    await rewrite_log(tmp_path / "old", tmp_path / "new", rewrite=rewrite, tokenizer=tokenizer)
    first, next_turns, _ = await read_log(tmp_path / "new")
    assert first == (await read_log(tmp_path / "old"))[0]
    said = {row.parent_id: row.last_user_text for row in next_turns}
    assert said == {"a1": "tell me more", "a3": "too long 3", "a5": "too long 5"}
