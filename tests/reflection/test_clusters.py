"""Maps of kinds: few and broad where there is little, stable ids, readable names."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from agent.sources import PreparedModel
from reflection.clusters import Labels, floors_of, map_kinds, means_of
from reflection.labels import keep_label, name_clusters
from reflection.map_job import MapJob
from reflection.matching import match_clusters
from reflection.nearest import Vectors, nearest_kind, unit
from reflection.worker import draw_map
from tests.reflection.builders import requests_of

DIMENSION = 64


def _blobs(sizes: Sequence[int], *, spread: float, seed: int = 0) -> Vectors:
    """Unit vectors around orthogonal centres; `spread` is the noise's length beside the centre's."""
    rng = np.random.default_rng(seed)
    parts = []
    for kind, size in enumerate(sizes):
        centre = np.zeros(DIMENSION)
        centre[kind] = 1.0
        noise = rng.normal(size=(size, DIMENSION)) / DIMENSION**0.5
        parts.append(centre + spread * noise)
    return unit(np.concatenate(parts).astype(np.float32))


def _sizes(labels: Labels) -> list[int]:
    sizes: list[int] = np.bincount(labels[labels >= 0]).tolist()
    return sorted(sizes, reverse=True)


def test_clear_kinds_are_found() -> None:
    """Three kinds are three clusters, biggest first."""
    labels = map_kinds(_blobs([30, 20, 12], spread=0.7), min_size=8, seed=0)
    assert _sizes(labels) == [30, 20, 12]
    assert labels[0] == 0


def test_one_cloud_is_one_kind() -> None:
    """Without structure there is one cluster, however many splits would fit a little better."""
    assert _sizes(map_kinds(_blobs([60], spread=3.0), min_size=8, seed=0)) == [60]


def test_too_few_for_two_kinds_are_one() -> None:
    """Below twice the smallest size nothing is split."""
    assert _sizes(map_kinds(_blobs([8, 7], spread=0.3), min_size=8, seed=0)) == [15]


def test_many_clear_kinds_use_the_dense_map() -> None:
    """Beyond the broad map's reach, dense regions are found without being told how many."""
    labels = map_kinds(_blobs([30] * 16, spread=0.6), min_size=8, seed=0)
    assert _sizes(labels) == [30] * 16


def test_many_diffuse_items_stay_broad() -> None:
    """Where density calls most of it noise, kinds stay few: a diffuse kind is not shattered."""
    labels = map_kinds(_blobs([350, 120], spread=2.0), min_size=8, seed=0)
    assert len(_sizes(labels)) <= 3
    assert (labels >= 0).all()


def test_a_map_is_the_same_twice() -> None:
    """Same items, same seed, same map."""
    vectors = _blobs([40, 25], spread=1.0)
    assert map_kinds(vectors, min_size=8, seed=3).tolist() == map_kinds(vectors, min_size=8, seed=3).tolist()


def test_floors_admit_newcomers_and_refuse_strangers() -> None:
    """Most new items of a kind pass its floor; items of an unknown kind do not."""
    vectors = _blobs([40, 40, 40, 40], spread=0.8)
    labels = np.repeat(np.arange(4), 40)
    known, floors = means_of(vectors[:80], labels[:80]), floors_of(vectors[:80], labels[:80])
    newcomers, strangers = _blobs([40, 40], spread=0.8, seed=9), vectors[120:]

    def admitted(items: Vectors) -> float:
        kinds = nearest_kind(items, known)
        return float(((items * unit(known)[kinds]).sum(axis=1) >= floors[kinds]).mean())

    assert admitted(newcomers) > 0.85
    assert admitted(strangers) < 0.1


def test_ids_survive_growth_and_renumbering() -> None:
    """A cluster keeps its identity when half as many items join it and the order of labels turns."""
    vectors = _blobs([30, 20], spread=0.7)
    old = np.asarray([0] * 20 + [-1] * 10 + [1] * 14 + [-1] * 6)
    new = np.asarray([1] * 30 + [0] * 20)
    old_centroids = unit(np.stack([vectors[:20].mean(axis=0), vectors[30:44].mean(axis=0)]))
    centroids = unit(means_of(vectors, new))
    assert match_clusters(new, old, centroids=centroids, old_centroids=old_centroids) == [1, 0]


def test_a_new_kind_takes_nobodys_id() -> None:
    """What overlaps with no old cluster is new."""
    vectors = _blobs([20, 20], spread=0.7)
    labels = np.asarray([0] * 20 + [1] * 20)
    matched = match_clusters(
        labels,
        np.asarray([0] * 20 + [-1] * 20),
        centroids=unit(means_of(vectors, labels)),
        old_centroids=unit(means_of(vectors[:20], labels[:20])),
    )
    assert matched == [0, -1]


def test_names_say_how_requests_begin() -> None:
    """A shared opening is the name; else the common openings are."""
    names = name_clusters(
        {
            "q": ["What is a glacier?", "What is gravity?", "How do I boil an egg?", "How do I tie a tie?"],
            "s": ["Write a short story about a fox", "Write a short story about the moon"],
        }
    )
    assert names == {"q": "What is … / How do …", "s": "Write a short story about …"}


def test_names_do_not_flicker() -> None:
    """A name that is mostly the same stays as it was."""
    assert keep_label("What is \u2026 / How do \u2026", "How do \u2026 / What is \u2026 / Why \u2026").startswith(
        "What is"
    )


@pytest.fixture(scope="module")
def real_vectors(starter_embedder: PreparedModel) -> dict[str, Vectors]:
    """Unit vectors of the shipped embedder for every list of requests."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = sentence_transformers.SentenceTransformer(str(starter_embedder.directory), device="cpu")
    kinds = ("questions", "stories", "code", "translations")
    return {kind: model.encode(requests_of(kind), normalize_embeddings=True) for kind in kinds}


def _real_map(vectors: Mapping[str, Vectors], counts: Mapping[str, int], seed: int) -> tuple[int, float]:
    """Sizes of the map's clusters, and the share of items that lie in the main cluster of their kind."""
    rng = np.random.default_rng(seed)
    drawn = [vectors[kind][np.sort(rng.permutation(len(vectors[kind]))[:count])] for kind, count in counts.items()]
    truth = np.repeat(np.arange(len(counts)), [len(part) for part in drawn])
    job = MapJob(
        vectors=np.concatenate(drawn),
        old_labels=np.full(len(truth), -1),
        old_centroids=np.zeros((0, 0), np.float32),
        min_size=8,
        seed=0,
    )
    labels = draw_map(job).labels
    right = sum(np.bincount(labels[truth == kind]).max() for kind in range(len(counts)))
    return len(_sizes(labels)), right / len(truth)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("counts", "num_kinds"),
    [
        ({"questions": 44, "stories": 20}, 2),
        ({"questions": 44}, 1),
        ({"stories": 20}, 1),
        ({"questions": 44, "stories": 20, "code": 16, "translations": 16}, 4),
    ],
)
def test_everyday_questions_are_one_kind(
    real_vectors: dict[str, Vectors], counts: dict[str, int], num_kinds: int, seed: int
) -> None:
    """With the real embedder: questions on any subject are one cluster, stories another, neither is shattered."""
    found, purity = _real_map(real_vectors, counts, seed)
    assert found == num_kinds
    assert purity >= 0.95
