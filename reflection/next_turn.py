"""What the user's next turn says about the answer before it: bad, good, or nothing that can be known.

A transparent linear model over cue families (reflection/rubrics); no network, no state. It abstains on new questions
and on anything weak: an unknown is never a bad mark. It does not know what the user wants, only whether the words are
about the answer, and it hands those words on unchanged. Source: the kinds of naturally occurring feedback of
Don-Yehiya et al. 2024; on dialogues with human satisfaction marks (USS, Sun et al. 2021) negation and correction cues
carry most of the signal, similarity little.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from memory.records import Message
from reflection.cues import CueFamily, load_cues, matches
from reflection.words import content_words, normalise, words_of

_BIAS = -1.3
"""Logit of a sentence without any cue: well inside the abstention band."""
_NEW_SUBJECT_WEIGHT = -0.7
"""Per content word, after the first, that is new and not about answers, at most three: a question about the world."""
_REPEAT_WEIGHT = 3.0
"""Asking nearly the same again; the same question twice says the first answer did not serve."""
_ABSTAIN_BAND = 0.15
"""Probabilities within this distance of one half are no signal."""
_REPEAT_RATIO = 0.82

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The turn to read and the turn before it."""

    question: str
    """What the user asked first."""
    answer: str
    """What the policy said to it."""
    turn: str
    """What the user said next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one next turn says of the answer before it."""

    score: float | None
    """In [-1, 1]; None: no signal."""
    words: str
    """What is said of the answer, as the user wrote it, without the sentences that ask for something new."""
    is_request: bool
    """The turn (also) asks for something new."""
    cues: tuple[str, ...]
    """Families that spoke: the reason."""


def read_next_turn(exchange: Exchange) -> Reading:
    """Read every sentence by itself: people complain and then go on to the next question in one breath."""
    if _is_repeat(exchange):
        return Reading(score=-(2 * _sigmoid(_REPEAT_WEIGHT + _BIAS) - 1), words="", is_request=True, cues=("repeat",))
    known = content_words(f"{exchange.question} {exchange.answer}")
    sentences = [s.strip() for s in _SENTENCE.findall(exchange.turn) if words_of(s)]
    readings = [_read_sentence(sentence, known) for sentence in sentences]
    about = [reading for reading in readings if reading.speaks]
    asks = any(reading.asks_anew for reading in readings)
    if not about:
        return Reading(score=None, words="", is_request=asks or not _is_small_talk(exchange.turn), cues=())
    kept = [text for text, reading in zip(sentences, readings, strict=True) if reading.speaks or not reading.asks_anew]
    negative = max(reading.negative for reading in about)
    positive = max(reading.positive for reading in about)
    is_bad = negative >= 0.5 + _ABSTAIN_BAND  # a wish outweighs the thanks said with it
    score = -(2 * negative - 1) if is_bad else 2 * positive - 1
    return Reading(
        score=score,
        words=" ".join(kept),
        is_request=asks,
        cues=tuple(dict.fromkeys(cue for reading in about for cue in reading.cues)),
    )


def exchange_of(messages: Sequence[Message]) -> Exchange | None:
    """The last user turn and what it follows, from a request's own messages; None where nothing was answered yet."""
    turns = [message for message in messages if message.role in {"user", "assistant"}]
    if len(turns) < 3 or turns[-1].role != "user" or turns[-2].role != "assistant":
        return None
    question = next((m.content for m in reversed(turns[:-2]) if m.role == "user"), "")
    return Exchange(question=question, answer=turns[-2].content, turn=turns[-1].content)


@dataclass(frozen=True, slots=True)
class _Sentence:
    negative: float
    positive: float
    cues: tuple[str, ...]
    asks_anew: bool
    """It asks for something that is not the answer before it, if only in passing ("Great, now write a poem")."""

    @property
    def speaks(self) -> bool:
        return max(self.negative, self.positive) >= 0.5 + _ABSTAIN_BAND


def _read_sentence(sentence: str, known: frozenset[str]) -> _Sentence:
    cues, text = load_cues(), normalise(sentence)
    is_order = sentence.rstrip().endswith("?") or bool(cues.opening.search(text))
    bad, good = matches(cues.negative, text), matches(cues.positive, text)
    if cues.negated_praise.search(text):
        bad, good = bad or [cues.negative[0]], []
    num_new = len(content_words(_without_cues((*bad, *good), text)) - known - cues.about_answers)
    penalty = _NEW_SUBJECT_WEIGHT * min(3, max(0, num_new - 1)) if is_order else 0.0
    negative = _sigmoid(_BIAS + sum(family.weight for family in bad) + penalty)
    positive = _sigmoid(_BIAS + sum(family.weight for family in good) + penalty)
    names = tuple(family.name for family in (*bad, *good))
    return _Sentence(negative, positive, names, asks_anew=is_order and not bad and num_new > 0)


def _without_cues(families: Sequence[CueFamily], text: str) -> str:
    for family in families:
        text = family.pattern.sub(" ", text)
    return text


def _is_repeat(exchange: Exchange) -> bool:
    before, after = normalise(exchange.question), normalise(exchange.turn)
    if not before or len(after.split()) < 3:
        return False
    is_new_subject = bool(content_words(after) - content_words(before))  # Austria is not Australia
    return not is_new_subject and SequenceMatcher(None, before, after, autojunk=False).ratio() >= _REPEAT_RATIO


def _is_small_talk(text: str) -> bool:
    """No content word at all ("ok", "hmm"): neither a request nor a judgement."""
    return not content_words(text) and not text.rstrip().endswith("?")


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))
