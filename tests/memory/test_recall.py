"""What is recalled, for whom, and when nothing is."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.embedder import EmbedderUnavailable
from memory.index import VectorIndex
from memory.recall import PREAMBLE, Recall, Recalled
from memory.records import Interaction
from memory.settings import MemorySettings
from memory.store import Store
from memory.tokens import Tokenizer
from tests.fakes_memory import FakeEmbedder
from tests.memory.builders import START, a_continuation, an_interaction, user


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def recall(store: Store, tokenizer: Tokenizer, embedder: FakeEmbedder) -> Recall:
    return a_recall(store, tokenizer, embedder)


def a_recall(store: Store, tokenizer: Tokenizer, embedder: FakeEmbedder, **options: Any) -> Recall:
    """With a budget that suits the tiny tokenizer, which spells most words letter by letter."""
    settings = options.pop("settings", {})
    made = MemorySettings(**{"recall_max_tokens": 2000, "recall_deadline_s": 0.05} | settings)
    return Recall(store, VectorIndex(), embedder=embedder, tokenizer=tokenizer, settings=made, **options)


async def remember(store: Store, recall: Recall, turns: Sequence[Interaction]) -> None:
    for turn in turns:
        await store.interactions.add([turn])
    await recall.index_pending()


async def ask(recall: Recall, question: str, *, principal: str = "p1", session: str = "ses_now") -> Recalled:
    return await recall.retrieve(principal, [user(question)], exclude_session=session)


DOG = an_interaction("int_dog", user("My dog is called Rex"), text="Rex is a fine name.", session_id="ses_a")
CITY = an_interaction("int_city", user("I moved to Lisbon last year"), text="Lisbon is sunny.", session_id="ses_b")
EGG = an_interaction("int_egg", user("How do I boil an egg?"), text="Eight minutes.", session_id="ses_c")


async def test_what_fits_is_recalled_with_its_date(store: Store, recall: Recall) -> None:
    """The matching turn is put in words, dated, marked as context, and named with the reason."""
    await remember(store, recall, [DOG, CITY, EGG])
    recalled = await ask(recall, "What is the name of my dog?")
    assert recalled.ids == ("int_dog",)
    assert recalled.text.startswith(PREAMBLE)
    assert "2026-01-02" in recalled.text
    assert "My dog is called Rex" in recalled.text
    assert not recalled.degraded
    (hit,) = recalled.hits
    assert hit.cosine is not None
    assert hit.bm25 is not None
    assert hit.coverage == 1.0


@pytest.mark.parametrize("question", ["Explain photosynthesis", "the of and", "", "?!", "Which dog?"])
async def test_nothing_is_recalled_when_nothing_fits(store: Store, recall: Recall, question: str) -> None:
    """The best of bad candidates is not good enough, and one common word is no reason."""
    filler = "My dog and I walked along the river bank past seven bridges while the rain fell on our brown coats"
    long_ago = an_interaction("int_long", user(filler), text="It sounds wet.", session_id="ses_d")
    await remember(store, recall, [CITY, EGG, long_ago])
    recalled = await ask(recall, question)
    assert (recalled.ids, recalled.text) == ((), "")


async def test_only_ones_own_and_other_sessions(store: Store, recall: Recall) -> None:
    """Nothing of another principal, and nothing that the conversation holds anyway."""
    await remember(store, recall, [DOG])
    question = "What is the name of my dog?"
    assert (await ask(recall, question, principal="p2")).ids == ()
    assert (await ask(recall, question, session="ses_a")).ids == ()


@pytest.mark.parametrize("trouble", ["away", "slow", "another model"])
async def test_words_decide_when_the_embedder_does_not_answer(
    store: Store, recall: Recall, embedder: FakeEmbedder, trouble: str
) -> None:
    """Recall goes on without vectors, within the deadline, and says that it did."""
    await remember(store, recall, [DOG, CITY, EGG])
    embedder.is_away = trouble == "away"
    embedder.delay_s = 60.0 if trouble == "slow" else 0.0
    embedder.model = "other" if trouble == "another model" else embedder.model
    recalled = await ask(recall, "What is the name of my dog? I called him")
    assert recalled.ids == ("int_dog",)
    assert recalled.degraded
    assert recalled.hits[0].cosine is None


async def test_just_said_is_found_before_it_is_embedded(store: Store, recall: Recall) -> None:
    """The lexical index is part of the commit: memory has no blind spot of minutes."""
    await remember(store, recall, [CITY])
    await store.interactions.add([DOG])
    assert (await ask(recall, "How was my dog called?")).ids == ("int_dog",)


async def test_the_newest_of_what_says_the_same_stands(store: Store, recall: Recall) -> None:
    """A fact that was said twice is recalled once, as it was said last."""
    again = an_interaction("int_again", *DOG.messages, session_id="ses_x", created_at=START + timedelta(days=3))
    await remember(store, recall, [DOG, again, CITY])
    assert (await ask(recall, "What is my dog called?")).ids == ("int_again",)


async def test_memory_keeps_to_its_budget(store: Store, tokenizer: Tokenizer, embedder: FakeEmbedder) -> None:
    """What is injected takes no more tokens and no more lines than allowed, the best first, told in order of time."""
    turns = [
        an_interaction(
            f"int_{n}",
            user(f"My dog Rex chewed shoe {n} " + "woof " * n),
            session_id=f"s{n}",
            created_at=START + timedelta(days=n),
        )
        for n in range(8)
    ]
    for settings in ({"recall_limit": 3}, {"recall_max_tokens": len(tokenizer.encode(PREAMBLE)) + 200}):
        recall = a_recall(store, tokenizer, embedder, settings=settings)
        await remember(store, recall, turns)
        recalled = await ask(recall, "Which shoe has my dog Rex chewed?")
        assert 1 <= len(recalled.ids) <= 3
        assert list(recalled.ids) == sorted(recalled.ids)
        assert len(tokenizer.encode(recalled.text)) <= settings.get("recall_max_tokens", 2000)


async def test_a_limit_of_nothing_turns_recall_off(store: Store, tokenizer: Tokenizer, embedder: FakeEmbedder) -> None:
    """Then nobody is asked."""
    recall = a_recall(store, tokenizer, embedder, settings={"recall_limit": 0})
    await remember(store, recall, [DOG])
    num_texts = embedder.num_texts
    assert await ask(recall, "What is my dog called?") == Recalled()
    assert embedder.num_texts == num_texts


async def test_an_answer_is_found_by_the_question_before_it(store: Store, recall: Recall) -> None:
    """Facts stand in turns that do not repeat what was asked."""
    first = an_interaction(
        "int_1", user("Recommend a hotel near the old harbour"), text="For whom?", session_id="ses_a"
    )
    second = a_continuation(first, "int_2", "My sister Maria", text="Then take the Miramar.")
    await remember(store, recall, [first, second, EGG])
    assert "int_2" in (await ask(recall, "Which hotel near the harbour did you recommend?")).ids


async def test_indexing_embeds_each_turn_once(store: Store, recall: Recall, embedder: FakeEmbedder) -> None:
    """A second look finds nothing to do; each turn has a vector for clustering and one for recall."""
    await store.interactions.add([DOG, CITY, EGG])
    assert await recall.index_pending() == 3
    assert await recall.index_pending() == 0
    assert embedder.num_texts == 6
    assert len(await store.embeddings.for_ids("fake", "request", [DOG.id, CITY.id, EGG.id])) == 3


async def test_indexing_without_an_embedder_is_an_error(recall: Recall, embedder: FakeEmbedder) -> None:
    """The pass that indexes hears that it could not; nothing is marked as done."""
    embedder.is_away = True
    with pytest.raises(EmbedderUnavailable):
        await recall.index_pending()


@pytest.mark.parametrize("snapshot", ["none", "good", "damaged"])
async def test_a_restart_finds_the_same(
    store: Store, tokenizer: Tokenizer, embedder: FakeEmbedder, tmp_path: Path, snapshot: str
) -> None:
    """From a snapshot or from the store alone, before the embedder has said a word, recall is what it was."""
    path = None if snapshot == "none" else tmp_path / "index" / "vectors"
    before = a_recall(store, tokenizer, embedder, snapshot=path, now=lambda: START)
    await remember(store, before, [DOG, CITY, EGG])
    await before.save()
    if snapshot == "damaged" and path is not None:
        path.write_bytes(b"rubbish")
    after = a_recall(store, tokenizer, FakeEmbedder(), snapshot=path, now=lambda: START)
    await after.warm()
    question = "What is the name of my dog?"
    assert await ask(after, question) == await ask(before, question) != Recalled()


async def test_another_embedder_means_other_vectors(
    store: Store, recall: Recall, embedder: FakeEmbedder, tokenizer: Tokenizer
) -> None:
    """Vectors of two models are never compared: all is embedded anew, the old rows stay."""
    await remember(store, recall, [DOG, CITY])
    embedder.model = "newer"
    assert await recall.index_pending() == 2
    recalled = await ask(recall, "What is the name of my dog?")
    assert recalled.ids == ("int_dog",)
    assert not recalled.degraded
    assert len((await store.embeddings.load("fake", "context"))[0]) == 2


async def test_an_empty_store_recalls_nothing(recall: Recall) -> None:
    """The first question of all is answered without memory."""
    await recall.warm()
    assert (await ask(recall, "What is the name of my dog?")).ids == ()
