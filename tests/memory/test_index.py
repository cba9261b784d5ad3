"""The vector index against brute force."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memory.index import VectorIndex

DIM = 8


def some_vectors(count: int, seed: int = 0) -> NDArray[np.float32]:
    """(N, D) random unit vectors."""
    vectors = np.random.default_rng(seed).standard_normal((count, DIM))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def a_filled_index() -> VectorIndex:
    index = VectorIndex(DIM)
    index.add([f"int_{n}" for n in range(6)], ["p1", "p2"] * 3, some_vectors(6))
    return index


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "remove"]), st.lists(st.integers(0, 30), max_size=8, unique=True)),
        max_size=12,
    ),
    principal=st.integers(0, 2),
    k=st.integers(1, 6),
)
def test_it_equals_brute_force(steps: list[tuple[str, list[int]]], principal: int, k: int) -> None:
    """After any additions and removals, search gives exactly the principal's nearest, with their cosines."""
    vectors, query = some_vectors(31), some_vectors(1, seed=9)[0]
    index, present = VectorIndex(), set[int]()
    for verb, numbers in steps:
        ids = [f"int_{n}" for n in numbers]
        if verb == "add":
            index.add(ids, [f"user_{n % 3}" for n in numbers], vectors[numbers])
            present |= set(numbers)
        else:
            index.remove(ids)
            present -= set(numbers)
    mine = sorted((n for n in present if n % 3 == principal), key=lambda n: -float(vectors[n] @ query))[:k]
    found = index.search(f"user_{principal}", query, k)
    assert [one for one, _ in found] == [f"int_{n}" for n in mine]
    np.testing.assert_allclose([cosine for _, cosine in found], vectors[mine] @ query, atol=1e-5)
    assert len(index) == len(present)


def test_nobody_finds_what_is_not_theirs() -> None:
    """However near it is, another principal's vector is not found."""
    index = a_filled_index()
    assert {one for one, _ in index.search("p1", some_vectors(6)[1], 10)} == {"int_0", "int_2", "int_4"}
    assert index.search("p3", some_vectors(6)[1], 10) == []


def test_vectors_come_back() -> None:
    """What is known can be compared again; what is not has no entry."""
    index = a_filled_index()
    found = index.vectors(["int_3", "int_unknown"])
    assert list(found) == ["int_3"]
    np.testing.assert_array_equal(found["int_3"], some_vectors(6)[3])


def test_a_wrong_dimension_is_refused() -> None:
    """Vectors of another embedder cannot get in."""
    with pytest.raises(ValueError, match="dimension"):
        a_filled_index().add(["int_9"], ["p1"], np.ones((1, DIM + 1), np.float32))


def test_a_snapshot_is_the_same_index(tmp_path: Path) -> None:
    """Saved and loaded, it answers as before, and can be changed."""
    index = a_filled_index()
    index.snapshot(tmp_path / "index" / "vectors", "mark")
    loaded = VectorIndex.load(tmp_path / "index" / "vectors", "mark")
    assert loaded is not None
    query = some_vectors(1, seed=3)[0]
    assert loaded.search("p1", query, 9) == index.search("p1", query, 9)
    loaded.remove(["int_0"])
    assert "int_0" not in loaded


def test_an_empty_snapshot_is_an_empty_index(tmp_path: Path) -> None:
    """Nothing is also something to save."""
    VectorIndex().snapshot(tmp_path / "vectors", "mark")
    loaded = VectorIndex.load(tmp_path / "vectors", "mark")
    assert loaded is not None
    assert len(loaded) == 0


@pytest.mark.parametrize("damage", ["flip", "truncate", "no manifest", "no data", "broken manifest", "stale"])
def test_a_snapshot_that_does_not_fit_is_not_used(tmp_path: Path, damage: str) -> None:
    """Damage or another state of the store means rebuilding, never wrong answers."""
    path, manifest = tmp_path / "vectors", tmp_path / "vectors.json"
    a_filled_index().snapshot(path, "mark")
    data = path.read_bytes()
    if damage == "flip":
        path.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])
    elif damage == "truncate":
        path.write_bytes(data[:-4])
    elif damage == "broken manifest":
        manifest.write_bytes(manifest.read_bytes()[:-9])
    elif damage.startswith("no"):
        (manifest if damage == "no manifest" else path).unlink()
    assert VectorIndex.load(path, "other" if damage == "stale" else "mark") is None
