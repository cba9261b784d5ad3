"""Vectors in the store."""

import numpy as np

from memory.records import Embedding
from memory.states import Purpose
from memory.store import Store
from tests.memory.builders import an_interaction


def both_kinds(interaction_id: str, *vector: float, embed_id: str = "e") -> list[Embedding]:
    return [
        Embedding(interaction_id=interaction_id, embed_id=embed_id, kind=kind, vector=vector)
        for kind in ("request", "context")
    ]


async def test_missing_is_what_lacks_a_vector(store: Store) -> None:
    """Newest first, live only, per embedder; half done is not done."""
    await store.interactions.add([an_interaction(f"int_{n}") for n in range(3)])
    await store.interactions.add([an_interaction("int_probe", purpose=Purpose.PROBE)])
    await store.embeddings.add([*both_kinds("int_0", 1.0, 0.0), both_kinds("int_1", 0.0, 1.0)[0]])
    assert [one.id for one in await store.embeddings.missing("e", 9)] == ["int_2", "int_1"]
    assert [one.id for one in await store.embeddings.missing("e", 1)] == ["int_2"]
    assert len(await store.embeddings.missing("other", 9)) == 3


async def test_vectors_come_back_as_arrays(store: Store) -> None:
    """All of a kind with their principals, or those of some interactions; a repeat changes nothing."""
    await store.interactions.add([an_interaction("int_0"), an_interaction("int_1", principal="p2")])
    await store.embeddings.add([*both_kinds("int_0", 0.6, 0.8), *both_kinds("int_1", 1.0, 0.0)])
    await store.embeddings.add(both_kinds("int_0", 0.0, 1.0))
    ids, principals, vectors = await store.embeddings.load("e", "context")
    assert (ids, principals) == (["int_0", "int_1"], ["p1", "p2"])
    np.testing.assert_array_equal(vectors, np.array([[0.6, 0.8], [1, 0]], np.float32))
    found = await store.embeddings.for_ids("e", "request", ["int_1", "int_9"])
    assert {one: vector.tolist() for one, vector in found.items()} == {"int_1": [1.0, 0.0]}
    assert (await store.embeddings.load("other", "context"))[2].shape == (0, 0)


async def test_the_watermark_moves_with_the_vectors(store: Store) -> None:
    """A cache of the vectors can tell whether it is one."""
    await store.interactions.add([an_interaction("int_0"), an_interaction("int_1")])
    marks = [await store.embeddings.watermark("e", "context")]
    for one in ("int_0", "int_1"):
        await store.embeddings.add(both_kinds(one, 1.0))
        marks.append(await store.embeddings.watermark("e", "context"))
    assert len(set(marks)) == 3
    await store.embeddings.add(both_kinds("int_0", 1.0, embed_id="other"))
    assert await store.embeddings.watermark("e", "context") == marks[-1]
