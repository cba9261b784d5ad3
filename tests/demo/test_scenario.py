"""The demonstration's scenario: who asks what, and that nothing that is audited is ever served."""

import pytest

from agent.demo.questions import everyday_questions, story_requests
from agent.demo.scenario import Channel, Kind, audit_items, make_scenario
from agent.demo.users import CONTRARY_SAYINGS, QUESTION_USERS, STORY_USERS, Wish


def test_lists_are_long_and_distinct() -> None:
    """There are enough different requests for a log and for an audit beside it."""
    questions, stories = everyday_questions(), story_requests()
    assert len(questions) > 120
    assert len(stories) >= 100
    assert len({text.casefold() for text in questions + stories}) == len(questions) + len(stories)


def test_same_seed_gives_same_scenario_and_another_seed_another() -> None:
    """A scenario is a function of its seed."""
    assert make_scenario(3) == make_scenario(3)
    assert {v.prompt for v in make_scenario(3).visits} != {v.prompt for v in make_scenario(4).visits}


@pytest.mark.parametrize("seed", range(5))
def test_audit_items_are_never_served(seed: int) -> None:
    """What is audited was not asked by anyone, whatever the seed."""
    audit = audit_items()
    served = {visit.prompt for visit in make_scenario(seed).visits}
    assert served.isdisjoint(audit.questions + audit.stories)
    assert len(set(audit.questions)) >= 40
    assert len(set(audit.stories)) >= 60


def test_everybody_speaks_and_sessions_are_their_own() -> None:
    """Every person takes part, each visit is a session of its own, and no two visits share a sampler seed."""
    visits = make_scenario(0).visits
    assert {visit.user for visit in visits} == {user.name for user in QUESTION_USERS + STORY_USERS}
    assert len({visit.session_id for visit in visits}) == len(visits)
    seeds = {visit.seed for visit in visits} | {visit.seed + 1 for visit in visits}
    assert len(seeds) == 2 * len(visits)


def test_six_people_want_it_short_and_one_the_opposite() -> None:
    """The people who ask questions do not all agree, and each has wordings of their own."""
    wishes = [user.wish for user in QUESTION_USERS]
    assert wishes.count(Wish.SHORT) >= 6
    assert wishes.count(Wish.DETAIL) == 1
    sayings = [saying for user in QUESTION_USERS + STORY_USERS for saying in user.sayings]
    assert len(set(sayings)) == len(sayings)
    assert set(sayings).isdisjoint(CONTRARY_SAYINGS)


def test_stories_are_praised_by_thumb_and_by_word() -> None:
    """Both channels of feedback are used."""
    channels = {visit.channel for visit in make_scenario(0).visits if visit.kind is Kind.STORY}
    assert channels == {Channel.FEEDBACK, Channel.NEXT_TURN}
