"""Text as reflection compares it: lower case, single spaces, content words, n-grams. No model."""

import re
from collections.abc import Sequence

from reflection.cues import load_cues

_WORD = re.compile(r"[a-z0-9][a-z0-9'+#-]*|[^\W\d_]+")


def normalise(text: str) -> str:
    return " ".join(text.lower().replace("\u2019", "'").split())


def words_of(text: str) -> list[str]:
    return _WORD.findall(normalise(text))


def content_words(text: str) -> frozenset[str]:
    """Words that carry a subject."""
    stop_words = load_cues().stop_words
    return frozenset(word for word in words_of(text) if word not in stop_words and len(word) > 1)


def phrases_of(text: str, *, longest: int) -> set[str]:
    """All n-grams of up to `longest` words that neither begin nor end in a stop word; none crosses a sentence."""
    found: set[str] = set()
    for sentence in re.split(r"[.!?\n;:]+", text):
        words = words_of(sentence)
        for length in range(1, longest + 1):
            found.update(" ".join(gram) for gram in _grams(words, length))
    return found


def _grams(words: Sequence[str], length: int) -> list[Sequence[str]]:
    stop_words = load_cues().stop_words
    grams = [words[start : start + length] for start in range(len(words) - length + 1)]
    return [gram for gram in grams if gram[0] not in stop_words and gram[-1] not in stop_words]
