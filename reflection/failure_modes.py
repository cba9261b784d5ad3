"""What goes wrong in the same way: phrases that the dissatisfied share, and how failed answers differ in shape.

Phrases are found over all clusters at once, because a failure mode is a second axis: one that is mended in one kind
of request must not live on unseen in another. Nothing here knows what any phrase means.
Source: log-odds with an informative Dirichlet prior (Monroe et al. 2008), here over phrases present per text.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from memory.records import FailureMode, Interaction, Verdict
from memory.states import FinishReason
from reflection.cues import load_cues
from reflection.support import is_failed
from reflection.words import phrases_of

_MAX_MODES = 4
_LONGEST_PHRASE = 4
_MIN_SHARE = 0.05
_MIN_Z = 1.96
_PRIOR_WEIGHT = 10.0
_MIN_CONTRAST = 1.5
"""Ratio of medians from which a difference in length is worth a line."""
_MIN_SHARE_GAP = 0.3
_MIN_GOOD = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An interaction and what was decided of it."""

    interaction: Interaction
    verdict: Verdict


def shared_phrases(judged: Sequence[Judged]) -> list[str]:
    """Phrases that set the words of the dissatisfied apart from requests, most telling first.

    A phrase counts when two principals use it (or the only one), in at least 5 % of the complaints.
    """
    complaints = [item for item in judged if is_failed(item.verdict) and item.verdict.hint]
    principals = {item.interaction.principal for item in complaints}
    users: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for item in complaints:
        for phrase in phrases_of(item.verdict.hint or "", longest=_LONGEST_PHRASE):
            counts[phrase] += 1
            users.setdefault(phrase, set()).add(item.interaction.principal)
    background: Counter[str] = Counter()
    for item in judged:
        background.update(phrases_of(item.interaction.last_user_text, longest=_LONGEST_PHRASE))
    needed = max(2.0, _MIN_SHARE * len(complaints))
    general = load_cues().about_answers  # "answer", "sentence": alone they tell nothing
    worth = {
        phrase: count * len(phrase.split()) ** 0.5
        for phrase, count in counts.items()
        if count >= needed
        and phrase not in general
        and len(users[phrase]) >= min(2, len(principals))
        and _z_score(count, len(complaints), background[phrase], len(judged)) >= _MIN_Z
    }
    return sorted(worth, key=lambda phrase: (-worth[phrase], phrase))


def modes_of(judged: Sequence[Judged], phrases: Sequence[str], good_elsewhere: Sequence[Judged]) -> list[FailureMode]:
    """The modes of one cluster: each complaint is told once, under the most telling phrase it holds."""
    failed = [item for item in judged if is_failed(item.verdict)]
    waiting = {item.interaction.id: item for item in failed}
    modes: list[FailureMode] = []
    for phrase in phrases:
        if len(modes) == _MAX_MODES:
            break
        saying = [
            item for item in waiting.values() if phrase in phrases_of(item.verdict.hint or "", longest=_LONGEST_PHRASE)
        ]
        if len(saying) >= 2:
            modes.append(_mode(f"they say \u201c{phrase}\u201d", saying))
            waiting = {key: item for key, item in waiting.items() if item not in saying}
    good = [item for item in judged if not is_failed(item.verdict)]
    return modes + _shape_modes(failed, good if len(good) >= _MIN_GOOD else good_elsewhere)


def _shape_modes(failed: Sequence[Judged], good: Sequence[Judged]) -> list[FailureMode]:
    """How failed answers differ from good ones in length and in how they end."""
    if len(failed) < _MIN_GOOD:
        return []
    modes: list[FailureMode] = []
    length, cut = _median_length(failed), _cut_share(failed)
    good_length = _median_length(good) if len(good) >= _MIN_GOOD else None
    good_cut = _cut_share(good) if len(good) >= _MIN_GOOD else None
    if good_length is None or _contrast(length, good_length) >= _MIN_CONTRAST:
        beside = "" if good_length is None else f", good ones {good_length:.0f}"
        modes.append(_mode(f"failed answers have a median of {length:.0f} tokens{beside}", failed))
    if cut - (good_cut or 0.0) >= _MIN_SHARE_GAP:
        beside = "" if good_cut is None else f", of the good ones {good_cut:.0%}"
        stopped = [item for item in failed if item.interaction.finish_reason is FinishReason.LENGTH]
        modes.append(_mode(f"{cut:.0%} of the failed answers stop at the token limit{beside}", stopped))
    return modes


def _mode(label: str, items: Sequence[Judged]) -> FailureMode:
    evidence = dict.fromkeys(identity for item in items for identity in item.verdict.evidence_ids)
    return FailureMode(label=label, count=len(items), evidence_ids=tuple(evidence))


def _median_length(items: Sequence[Judged]) -> float:
    return float(median(len(item.interaction.token_ids) for item in items))


def _cut_share(items: Sequence[Judged]) -> float:
    return sum(item.interaction.finish_reason is FinishReason.LENGTH for item in items) / len(items)


def _contrast(left: float, right: float) -> float:
    return max(left, right) / max(1.0, min(left, right))


def _z_score(count: int, total: int, background: int, background_total: int) -> float:
    """Log-odds of the phrase among complaints against requests, over its standard error."""
    prior = _PRIOR_WEIGHT * (count + background) / (total + background_total)
    own, other = count + prior, background + prior
    own_rest = total - count + _PRIOR_WEIGHT - prior
    other_rest = background_total - background + _PRIOR_WEIGHT - prior
    difference = math.log(own / max(own_rest, 0.5)) - math.log(other / max(other_rest, 0.5))
    return difference / math.sqrt(1 / own + 1 / other)
