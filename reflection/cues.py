"""Cue phrases as compiled patterns, read from reflection/rubrics: another language is another file."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, slots=True)
class CueFamily:
    """Phrases that mean the same, and what one hit adds to the logit."""

    name: str
    weight: float
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cues:
    """All that is known of how people talk about answers in one language."""

    negative: tuple[CueFamily, ...]
    positive: tuple[CueFamily, ...]
    negated_praise: re.Pattern[str]
    """Praise words under a negation: not praise."""
    opening: re.Pattern[str]
    """How a question or an order begins."""
    about_answers: frozenset[str]
    """Words people use of answers in general: they bring no new subject with them."""
    stop_words: frozenset[str]


@cache
def load_cues(language: str = "en") -> Cues:
    """The cue phrases of one language; raises FileNotFoundError for one that nobody wrote yet."""
    text = resources.files("reflection").joinpath("rubrics", f"next_turn_{language}.toml").read_text("utf-8")
    table = tomllib.loads(text)
    return Cues(
        negative=_families(table["negative"], table["words"]),
        positive=_families(table["positive"], table["words"]),
        negated_praise=re.compile(table["negated_praise"]),
        opening=re.compile(table["opening"]),
        about_answers=frozenset(table["about_answers"].split()),
        stop_words=frozenset(table["stop_words"].split()),
    )


def matches(families: Sequence[CueFamily], text: str) -> list[CueFamily]:
    """Families of which some phrase occurs in lower-case `text`."""
    return [family for family in families if family.pattern.search(text)]


def _families(entries: Sequence[dict[str, Any]], words: dict[str, str]) -> tuple[CueFamily, ...]:
    return tuple(CueFamily(entry["name"], entry["weight"], _any_of(entry["phrases"], words)) for entry in entries)


def _any_of(phrases: Sequence[str], words: dict[str, str]) -> re.Pattern[str]:
    joined = "|".join(f"(?:{phrase})" for phrase in phrases)
    for name, alternatives in words.items():
        joined = joined.replace(f"<{name}>", alternatives)
    return re.compile(joined)
