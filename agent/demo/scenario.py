"""Who asks what and what they say of the answer: one seed, one scenario. Pure: no clock, no network."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agent.demo.questions import everyday_questions, story_requests
from agent.demo.users import QUESTION_USERS, STORY_USERS, SimulatedUser

NUM_AUDIT_QUESTIONS = 44
NUM_AUDIT_STORIES = 62
AUDIT_SEED = 7
"""The audit items are the same in every scenario, so that no scenario ever serves one of them."""


class Kind(StrEnum):
    QUESTION = "question"
    STORY = "story"


class Channel(StrEnum):
    """How a person reacts to an answer."""

    NEXT_TURN = "next_turn"
    FEEDBACK = "feedback"
    """A thumb up with a comment, by POST /v1/feedback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request in a session of its own, and the reaction that follows."""

    user: str
    session_id: str
    kind: Kind
    prompt: str
    reaction: str
    channel: Channel
    seed: int
    """Of the sampler; the follow-up uses seed + 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    seed: int
    visits: tuple[Visit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Requests that no scenario serves before it is measured."""

    questions: tuple[str, ...]
    stories: tuple[str, ...]


def audit_items() -> Audit:
    rng = random.Random(AUDIT_SEED)  # noqa: S311 - a draw that can be repeated, not a secret
    return Audit(
        questions=tuple(rng.sample(everyday_questions(), NUM_AUDIT_QUESTIONS)),
        stories=tuple(rng.sample(story_requests(), NUM_AUDIT_STORIES)),
    )


def make_scenario(seed: int, *, num_questions: int = 44, num_stories: int = 36) -> Scenario:
    """Questions and stories in a shuffled order, spread evenly over the people who ask them.

    There are nearly as many praised stories as criticised questions: with few of them, feedback that was permuted
    across interactions would still be right about most questions by chance.
    """
    rng = random.Random(seed)  # noqa: S311
    audit = audit_items()
    questions = _draw(rng, everyday_questions(), num_questions, audit.questions)
    stories = _draw(rng, story_requests(), num_stories, audit.stories)
    visits = [*_visits(Kind.QUESTION, questions, QUESTION_USERS), *_visits(Kind.STORY, stories, STORY_USERS)]
    rng.shuffle(visits)
    return Scenario(seed=seed, visits=tuple(_numbered(visit, seed, index) for index, visit in enumerate(visits)))


def _draw(rng: random.Random, pool: Sequence[str], count: int, excluded: Sequence[str]) -> list[str]:
    free = sorted(set(pool) - set(excluded))
    return rng.sample(free, count)


def _visits(kind: Kind, prompts: Sequence[str], users: Sequence[SimulatedUser]) -> list[Visit]:
    return [
        _visit(kind, prompt, users[index % len(users)], index // len(users)) for index, prompt in enumerate(prompts)
    ]


def _visit(kind: Kind, prompt: str, user: SimulatedUser, turn: int) -> Visit:
    # Every other story is praised by a thumb with a comment, the rest in the next turn.
    by_thumb = kind is Kind.STORY and turn % 2 == 0
    return Visit(
        user=user.name,
        session_id="",
        kind=kind,
        prompt=prompt,
        reaction=user.sayings[turn % len(user.sayings)],
        channel=Channel.FEEDBACK if by_thumb else Channel.NEXT_TURN,
        seed=0,
    )


def _numbered(visit: Visit, seed: int, index: int) -> Visit:
    return Visit(
        user=visit.user,
        session_id=f"demo-{seed}-{index:03d}-{visit.user}",
        kind=visit.kind,
        prompt=visit.prompt,
        reaction=visit.reaction,
        channel=visit.channel,
        seed=1_000_000 * (seed + 1) + 10 * index,
    )
