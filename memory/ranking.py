"""The arithmetic of recall and the words it is put in. Pure: no store, no embedder, no clock."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from memory.interactions import turn_texts
from memory.lexical import shared_words
from memory.records import Interaction

COSINE_WEIGHT, BM25_WEIGHT = 0.4, 0.6  # measured on LoCoMo: 80 of 100 questions answered by the first ten
RECENCY_WEIGHT = 0.05
RECENCY_SCALE_S = 30 * 86_400.0
NEAR_DUPLICATE = 0.95  # cosine: of two that say the same, the newer one stands
PREVIOUS_CHARACTERS, TURN_CHARACTERS = 300, 700  # of a context text: about what the embedder reads
SHOWN_CHARACTERS = 300  # of each side of a recalled turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Why one earlier interaction was recalled."""

    interaction_id: str
    score: float
    """Of the fusion: comparable within one question only."""
    cosine: float | None
    """None: not among the nearest, or the embedder did not answer."""
    bm25: float | None
    """None: no word in common."""
    num_shared: int = 0
    """Content words of the question that occur in it."""
    coverage: float = 0.0
    """Their share of all content words of the question."""


def weigh(interaction: Interaction, hit: Hit, *, question: str, now: datetime) -> Hit:
    """The hit with what only the interaction itself can tell: its age, and the words it shares with the question."""
    num_shared, coverage = shared_words(question, "\n".join(turn_texts(interaction)))
    age_s = max((now - interaction.created_at).total_seconds(), 0.0)
    score = hit.score + RECENCY_WEIGHT * math.exp(-age_s / RECENCY_SCALE_S)
    return replace(hit, score=score, num_shared=num_shared, coverage=coverage)


def fuse(cosines: Mapping[str, float], bm25: Mapping[str, float]) -> dict[str, Hit]:
    """Weighted sum of both signals, each scaled to [0, 1] over its own candidates; a missing one counts 0."""
    scaled_cosines, scaled_bm25 = _scale(cosines), _scale(bm25)
    return {
        one: Hit(
            interaction_id=one,
            score=COSINE_WEIGHT * scaled_cosines.get(one, 0.0) + BM25_WEIGHT * scaled_bm25.get(one, 0.0),
            cosine=cosines.get(one),
            bm25=bm25.get(one),
        )
        for one in dict.fromkeys([*cosines, *bm25])
    }


def drop_near_duplicates(
    ranked: Sequence[tuple[Interaction, Hit]], vectors: Mapping[str, NDArray[np.float32]]
) -> list[tuple[Interaction, Hit]]:
    """Of those that say the same, one: the newest, in the place of the best. Facts change; the last word counts."""
    kept: list[tuple[Interaction, Hit]] = []
    for candidate in ranked:
        twin = next((n for n, other in enumerate(kept) if _says_the_same(candidate[0], other[0], vectors)), None)
        if twin is None:
            kept.append(candidate)
        elif candidate[0].created_at > kept[twin][0].created_at:
            kept[twin] = candidate
    return kept


def context_text(interaction: Interaction) -> str:
    """What stands for an interaction in the index: the end of the previous turn, then the turn."""
    turn, previous = turn_texts(interaction)
    return f"{previous[-PREVIOUS_CHARACTERS:]}\n{turn[:TURN_CHARACTERS]}".strip()


def describe(interaction: Interaction) -> str:
    """One line for the reader: when, what the user said, what was answered."""
    said, answered = _shorten(interaction.last_user_text), _shorten(interaction.text)
    return f'- {interaction.created_at:%Y-%m-%d}: the user said "{said}" and you answered "{answered}"'


def _says_the_same(left: Interaction, right: Interaction, vectors: Mapping[str, NDArray[np.float32]]) -> bool:
    if _normalised(left.last_user_text) == _normalised(right.last_user_text):
        return True
    a, b = vectors.get(left.id), vectors.get(right.id)
    return a is not None and b is not None and float(a @ b) >= NEAR_DUPLICATE


def _normalised(text: str) -> str:
    return " ".join(text.lower().split())


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1].rstrip() + "…"


def _scale(scores: Mapping[str, float]) -> dict[str, float]:
    """Min-max over the candidates; all 1 where all are equal."""
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    return {one: (score - low) / (high - low) if high > low else 1.0 for one, score in scores.items()}
