"""Names that a reader understands, without a model: how a cluster's requests begin, and the words that set it apart.

Openings say what kind of request it is ("Write a short story about ..."); where requests begin in many ways, the
most common ones are listed. Words are c-TF-IDF terms (BERTopic): frequent here, rare elsewhere.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from reflection.words import content_words, normalise

_SHARED_OPENING = 0.6
"""Share of requests that must begin alike for their opening to be the name."""
_LISTED_OPENING = 0.08
_MAX_OPENING_WORDS = 6
_MIN_TERM_SHARE = 0.1
_MIN_KEPT_OVERLAP = 0.5


def name_clusters(texts: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Cluster id -> label, from the requests of every cluster."""
    terms = _distinctive_terms(texts)
    return {cluster: _label(requests, terms[cluster]) for cluster, requests in texts.items()}


def keep_label(old: str, new: str) -> str:
    """The old name unless the new one shares less than half of its words: names that flicker cannot be learned."""
    old_words, new_words = set(normalise(old).split()), set(normalise(new).split())
    overlap = len(old_words & new_words) / max(1, min(len(old_words), len(new_words)))
    return old if overlap >= _MIN_KEPT_OVERLAP else new


def _label(requests: Sequence[str], terms: Sequence[str]) -> str:
    shared = _shared_opening(requests)
    if shared:
        return f"{shared} \u2026"
    listed = [f"{opening} \u2026" for opening in _common_openings(requests)]
    if listed:
        words = f" ({', '.join(terms[:2])})" if terms else ""
        return " / ".join(listed) + words
    return ", ".join(terms) if terms else "mixed requests"


def _shared_opening(requests: Sequence[str]) -> str | None:
    """The longest run of first words that most of the requests have."""
    best: str | None = None
    for length in range(2, _MAX_OPENING_WORDS + 1):
        opening, count = _openings(requests, length)
        if opening and count >= _SHARED_OPENING * len(requests) and count > 1:
            best = opening
    return best


def _common_openings(requests: Sequence[str]) -> list[str]:
    """Up to three first words pairs, most common first, each in a fair share of the requests."""
    pairs = Counter(" ".join(normalise(text).split()[:2]) for text in requests if len(text.split()) > 2)
    needed = max(2.0, _LISTED_OPENING * len(requests))
    return [_capital(pair) for pair, count in pairs.most_common(3) if count >= needed]


def _openings(requests: Sequence[str], length: int) -> tuple[str, int]:
    counted = Counter(" ".join(normalise(text).split()[:length]) for text in requests if len(text.split()) > length)
    opening, count = counted.most_common(1)[0] if counted else ("", 0)
    return _capital(opening), count


def _distinctive_terms(texts: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """c-TF-IDF: tf in the cluster x log(1 + mean words per cluster / df); only words of several requests."""
    counts = {
        cluster: Counter(word for text in group for word in content_words(text)) for cluster, group in texts.items()
    }
    total: Counter[str] = Counter()
    for counted in counts.values():
        total.update(counted)
    mean_words = total.total() / max(1, len(counts))
    chosen: dict[str, list[str]] = {}
    for cluster, counted in counts.items():
        needed = max(2.0, _MIN_TERM_SHARE * len(texts[cluster]))
        weights = {word: n * math.log(1 + mean_words / total[word]) for word, n in counted.items() if n >= needed}
        chosen[cluster] = sorted(weights, key=lambda word: (-weights[word], word))[:4]
    return chosen


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
