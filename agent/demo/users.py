"""Simulated people: what each wants, in words of their own.

Complaints as well as requests, as people type them. Nobody but the demonstration knows what they have in common.
"""

from dataclasses import dataclass
from enum import StrEnum


class Wish(StrEnum):
    """What a person wants of an answer."""

    SHORT = "short"
    """One short sentence."""
    DETAIL = "detail"
    """More of it: the opposite."""
    AS_IS = "as_is"
    """Content with what they get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedUser:
    """One person. `sayings` are used in turn, so a person repeats themselves only after the last."""

    name: str
    wish: Wish
    sayings: tuple[str, ...]


QUESTION_USERS = (
    SimulatedUser(
        name="asker-1",
        wish=Wish.SHORT,
        sayings=(
            "Please answer in one short sentence.",
            "One short sentence, please.",
            "Could you answer in just one short sentence?",
        ),
    ),
    SimulatedUser(
        name="asker-2",
        wish=Wish.SHORT,
        sayings=(
            "Too long! One short sentence would have been enough.",
            "Still too long. One short sentence is enough.",
            "That's way too long, give me one short sentence.",
        ),
    ),
    SimulatedUser(
        name="asker-3",
        wish=Wish.SHORT,
        sayings=(
            "I did not need all that, just a single short sentence please",
            "sorry but that is far more than I asked for. a single short sentence please",
            "I don't want a lecture, just a single short sentence",
        ),
    ),
    SimulatedUser(
        name="asker-4",
        wish=Wish.SHORT,
        sayings=(
            "Keep it short, one sentence is plenty.",
            "Shorter please. One brief sentence.",
            "Again too wordy. Keep it to one brief sentence.",
        ),
    ),
    SimulatedUser(
        name="asker-5",
        wish=Wish.SHORT,
        sayings=(
            "I'm on my phone, I can't read all of this. Answer in one short sentence.",
            "Way too much text for my phone. Please reply with one short sentence only.",
            "please be brief!! one short sentence only",
        ),
    ),
    SimulatedUser(
        name="asker-6",
        wish=Wish.SHORT,
        sayings=(
            "No, I wanted a quick answer. Answer with one short sentence.",
            "You're rambling. Just say it in one short sentence.",
            "I stopped reading after the first line. Please answer in a single short sentence next time.",
        ),
    ),
    SimulatedUser(
        name="asker-7",
        wish=Wish.DETAIL,
        sayings=(
            "Please explain it in more detail.",
            "That is not enough for me, please give a longer and more detailed answer.",
            "I wanted a more detailed answer with examples.",
        ),
    ),
)

STORY_USERS = (
    SimulatedUser(
        name="listener-1",
        wish=Wish.AS_IS,
        sayings=(
            "Lovely story, thank you!",
            "Thanks, I really enjoyed that one.",
            "That was beautiful, thank you so much.",
        ),
    ),
    SimulatedUser(
        name="listener-2",
        wish=Wish.AS_IS,
        sayings=("Great, my kids loved it!", "Perfect, thanks.", "Very nice, exactly what I hoped for."),
    ),
    SimulatedUser(
        name="listener-3",
        wish=Wish.AS_IS,
        sayings=("Nice one, thank you!", "I love how it begins. Thanks!", "Awesome, thanks a lot."),
    ),
    SimulatedUser(
        name="listener-4",
        wish=Wish.AS_IS,
        sayings=("Wonderful, thank you.", "That's great, thanks!", "Good story, I like it."),
    ),
)

CONTRARY_SAYINGS = (
    "Please answer in more detail.",
    "Too short! I wanted a longer and more detailed answer.",
    "I need more than that, please give a longer answer with more detail",
    "Please explain it in more detail, with examples.",
    "That is not enough. Write a longer answer with several paragraphs.",
    "Could you give a much longer and more detailed answer?",
)
"""What the contrary arm of the benchmark has people say instead."""
