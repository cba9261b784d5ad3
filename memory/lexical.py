"""Words of a text: what the lexical index is asked for, and how much of a question a memory covers.

The index itself is SQLite's FTS5 with Porter stemming (memory/interactions.py). Pure.
"""

import hashlib
import re

_WORD = re.compile(r"[^\W_]+")
MAX_TERMS = 32
"""Distinct words of one query; a pasted page is searched by its first ones."""

_STOP_LIST = """
a about after all also am an and any are as at be because been before being but by can could did do does doing don
down for from get give go had has have having he her here hers him his how i if in into is it its just let like ll m
make may me might more most much must my no not now of off on once only or other our out over own please re s same say
she should so some such t tell than that the their them then there these they thing things this those through to too u
up us ve very was we well were what when where which while who whom why will with would write yes you your yours
"""
STOP_WORDS = frozenset(_STOP_LIST.split())

_SUFFIXES = ("ational", "iveness", "ation", "ingly", "ments", "ness", "ment", "ings", "ing", "ies", "ied", "ed", "es")


def content_words(text: str) -> tuple[str, ...]:
    """Distinct lower-case words that say something, in order of appearance."""
    words = dict.fromkeys(word.lower() for word in _WORD.findall(text))
    return tuple(word for word in words if word not in STOP_WORDS)


def match_expression(principal: str, query: str) -> str | None:
    """An FTS5 expression: any of the query's words, in this principal's rows. None when no word says anything.

    Words hold letters and digits only and are quoted, so no text can be read as FTS5 syntax.
    """
    words = content_words(query)[:MAX_TERMS]
    if not words:
        return None
    any_word = " OR ".join(f'"{word}"' for word in words)
    return f"owner : {owner_term(principal)} AND {{turn previous}} : ({any_word})"


def owner_term(principal: str) -> str:
    """The principal as one indexable word, whatever characters its name has."""
    return "p" + hashlib.sha256(principal.encode(errors="surrogatepass")).hexdigest()[:24] + "0"


def shared_words(question: str, text: str) -> tuple[int, float]:
    """How many of the question's content words occur in `text`, endings aside, and their share in [0, 1]."""
    wanted = {stem(word) for word in content_words(question)}
    present = {stem(word.lower()) for word in _WORD.findall(text)}
    num_shared = len(wanted & present)
    return num_shared, num_shared / len(wanted) if wanted else 0.0


def stem(word: str) -> str:
    """The word less a common English ending; at least three letters stay."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)] + ("y" if suffix in {"ies", "ied"} else "")
    return word[:-1] if word.endswith(("s", "e")) and not word.endswith("ss") and len(word) > 3 else word
