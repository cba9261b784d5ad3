"""Support, remedies, failure modes, examples: what follows from verdicts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.records import Abstention, Assignment, Example, Interaction, Verdict
from memory.states import Cause, FinishReason, Method, Outcome, Remedy, Split
from reflection.curate import Curation, Origin, curate
from reflection.failure_modes import Judged, modes_of, shared_phrases
from reflection.privacy import find_private
from reflection.settings import ReflectionSettings
from reflection.support import choose_remedy, weigh, wilson
from tests.reflection.builders import T0, a_verdict, an_interaction

ORIGIN = Origin(reflection_id="ref_1", cluster_id="cl_1", now=T0)
SETTINGS = ReflectionSettings()

Judgements = dict[str, Verdict | Abstention]


def _curate(
    members: Sequence[Interaction],
    judged: Mapping[str, Verdict | Abstention],
    *,
    earlier: Sequence[Example] = (),
    places: Mapping[str, Assignment] | None = None,
) -> Curation:
    placed = places or {
        one.id: Assignment(interaction_id=one.id, group_id=one.id, split=Split.TRAIN, cluster_id="cl_1")
        for one in members
    }
    return curate(members, judged, placed, earlier=earlier, origin=ORIGIN, settings=SETTINGS)


def _complaints(num_each: int, principals: Sequence[str]) -> tuple[list[Interaction], Judgements]:
    """Interactions in turn of each principal, all failed for the same reason."""
    members = [
        an_interaction(number, principal=principals[number % len(principals)])
        for number in range(num_each * len(principals))
    ]
    return members, {one.id: a_verdict(one.id, 0.2, hint="Too long. One line is plenty.") for one in members}


@given(st.integers(1, 500), st.data())
def test_wilson_holds_the_share(trials: int, data: st.DataObject) -> None:
    """The interval lies in [0, 1] and around the observed share."""
    successes = data.draw(st.integers(0, trials))
    low, high = wilson(successes, trials)
    assert 0.0 <= low <= successes / trials + 1e-12
    assert successes / trials - 1e-12 <= high <= 1.0


def test_wilson_is_the_published_interval() -> None:
    """8 of 10: 0.490 to 0.943; without trials anything is possible."""
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


def test_enough_people_who_say_how_move_weights() -> None:
    """Three principals, a dozen complaints in words, hardly anything good: weights."""
    members, judged = _complaints(4, ["p1", "p2", "p3"])
    assert choose_remedy(weigh(members, judged), SETTINGS)[0] is Remedy.WEIGHTS


def test_a_majority_that_chance_could_have_dealt_does_not_move_weights() -> None:
    """24 complaints of 36, where more than half of all the answers were complained of: the evidence is mixed."""
    members, judged = _complaints(9, ["p1", "p2", "p3", "p4"])
    mixed = {key: a_verdict(key, 0.95) if number % 3 == 0 else judged[key] for number, key in enumerate(judged)}
    remedy, why = choose_remedy(weigh(members, mixed), SETTINGS)
    assert remedy is Remedy.MEMORY
    assert "60% is needed" in why


def test_one_of_many_does_not_move_weights() -> None:
    """One principal's wish among five active ones is for memory."""
    members, judged = _complaints(12, ["p1"])
    others = [an_interaction(100 + n, principal=name) for n, name in enumerate(["p2", "p3", "p4", "p5"])]
    assert choose_remedy(weigh([*members, *others], judged), SETTINGS)[0] is Remedy.MEMORY


def test_a_personal_install_needs_one() -> None:
    """Where only one principal is active, one is all there can be."""
    members, judged = _complaints(12, ["p1"])
    assert choose_remedy(weigh(members, judged), SETTINGS)[0] is Remedy.WEIGHTS


def test_contradictory_evidence_does_not_move_weights() -> None:
    """Half good, half bad: no shared change."""
    members, judged = _complaints(6, ["p1", "p2", "p3"])
    for one in members[::2]:
        judged[one.id] = a_verdict(one.id, 0.9)
    remedy, why = choose_remedy(weigh(members, judged), SETTINGS)
    assert remedy is Remedy.MEMORY
    assert "mixed" in why


def test_what_works_needs_no_remedy() -> None:
    """Praise alone proposes nothing: ratings can be gamed, and there is nothing to mend."""
    members, judged = _complaints(4, ["p1", "p2", "p3"])
    praised = {key: a_verdict(key, 0.95) for key in judged}
    assert choose_remedy(weigh(members, praised), SETTINGS)[0] is Remedy.NOTHING


def test_broken_tools_are_mended_not_trained_away() -> None:
    """Where most answers were broken by the machinery, the fault is the finding."""
    fault: dict[str, Any] = {"outcome": Outcome.FAILED, "cause": Cause.INFRASTRUCTURE}
    members = [an_interaction(number, **fault) for number in range(6)]
    assert choose_remedy(weigh(members, {}), SETTINGS)[0] is Remedy.FAULT


def test_a_busy_user_is_one_voice() -> None:
    """The score is the mean over principals, not over interactions."""
    members = [an_interaction(number, principal="p1" if number < 9 else "p2") for number in range(10)]
    judged = {one.id: a_verdict(one.id, 0.0 if one.principal == "p1" else 1.0) for one in members}
    assert weigh(members, judged).score == 0.5


def test_the_evidence_picks_the_method() -> None:
    """A correction, words, praise: three methods; nothing to go by is left out with its reason."""
    members = [an_interaction(number) for number in range(5)]
    judged: Judgements = {
        "i_0000": a_verdict("i_0000", 0.0, correction="Moving ice."),
        "i_0001": a_verdict("i_0001", 0.1, hint="Too long."),
        "i_0002": a_verdict("i_0002", 0.9),
        "i_0003": a_verdict("i_0003", 0.1),
        "i_0004": Abstention(
            id="abs", created_at=T0, pass_id="pass_1", interaction_id="i_0004", reason="nobody said anything of it"
        ),
    }
    curation = _curate(members, judged)
    assert [example.method for example in curation.standing] == [Method.CORRECTION, Method.HINDSIGHT, Method.REPLAY]
    assert dict(curation.left_out) == {
        "failed, but nobody said how it should have been": 1,
        "not judged: nobody said anything of it": 1,
    }


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"learn": False}, "kept out of learning at the client's request"),
        ({"text": "Write to me@example.org"}, "holds private data (e-mail address)"),
        ({"token_ids": ()}, "no complete answer to learn from"),
    ],
)
def test_what_must_not_teach_is_left_out(changes: dict[str, Any], reason: str) -> None:
    """Wishes of the client, private data and broken answers are reasons, and they are counted."""
    member = an_interaction(1, **changes)
    curation = _curate([member], {member.id: a_verdict(member.id, 0.9)})
    assert (curation.standing, curation.left_out) == ((), ((reason, 1),))


@given(st.lists(st.sampled_from(["p1", "p2", "p3"]), min_size=1, max_size=80))
def test_curation_counts_everything_once(principals: list[str]) -> None:
    """Every member is an example or left out; no interaction twice; no principal beyond the cap; the same twice."""
    members = [an_interaction(number, principal=name) for number, name in enumerate(principals)]
    judged = {one.id: a_verdict(one.id, 0.1, hint="Too long.") for one in members}
    curation = _curate(members, judged)
    counts = Counter(example.principal for example in curation.standing)
    assert len(curation.standing) + sum(number for _, number in curation.left_out) == len(members)
    assert len({example.interaction_id for example in curation.standing}) == len(curation.standing)
    assert max(counts.values()) <= max(SETTINGS.max_per_principal, 2 * max(Counter(principals).values()))
    again = _curate(members, judged)
    assert [e.interaction_id for e in again.standing] == [e.interaction_id for e in curation.standing]


def test_gate_and_audit_are_not_capped() -> None:
    """The cap is about influence on the weights; measuring may use all there is."""
    names = ["p1"] * 30 + ["p2", "p3", "p4"]
    members = [an_interaction(number, principal=name) for number, name in enumerate(names)]
    judged = {one.id: a_verdict(one.id, 0.1, hint="Too long.") for one in members}
    places = {
        one.id: Assignment(interaction_id=one.id, group_id=one.id, split=Split.GATE if number % 2 else Split.TRAIN)
        for number, one in enumerate(members)
    }
    counts = Counter((e.principal, e.split) for e in _curate(members, judged, places=places).standing)
    assert counts["p1", Split.TRAIN] == SETTINGS.max_per_principal
    assert counts["p1", Split.GATE] == 15


def test_a_second_pass_writes_only_what_changed() -> None:
    """Unchanged examples stand as they are; a changed verdict withdraws the old method with weight 0."""
    members, judged = _complaints(1, ["p1", "p2"])
    first = _curate(members, judged)
    second = _curate(members, judged, earlier=first.standing)
    assert (second.changed, second.standing) == ((), first.standing)
    judged[members[0].id] = a_verdict(members[0].id, 0.95)
    third = _curate(members, judged, earlier=first.standing)
    assert [(e.method, e.weight) for e in third.changed] == [(Method.REPLAY, 1.0), (Method.HINDSIGHT, 0.0)]


def test_shared_words_become_a_failure_mode() -> None:
    """What several people say is a mode with its evidence; what one says over and over is not."""
    hints = ["Way too long, one short sentence please."] * 3 + ["I want one short sentence."] * 2 + ["Use emojis."] * 3
    names = ["p1", "p2", "p3", "p1", "p4", "p5", "p5", "p5"]
    judged = [
        Judged(
            interaction=an_interaction(number, principal=names[number]),
            verdict=a_verdict(f"i_{number:04d}", 0.1, hint=hint),
        )
        for number, hint in enumerate(hints)
    ]
    phrases = shared_phrases(judged)
    assert phrases[0] == "one short sentence"
    assert "emojis" not in phrases
    mode = modes_of(judged, phrases, [])[0]
    assert (mode.label, mode.count) == ("they say \u201cone short sentence\u201d", 5)
    assert mode.evidence_ids == tuple(f"ev_i_{number:04d}" for number in range(5))


def test_the_shape_of_failure_is_told_beside_the_good() -> None:
    """Failed answers that are longer, or cut, are described with the good ones' figures."""
    failed = [
        Judged(
            interaction=an_interaction(n, finish_reason=FinishReason.LENGTH, token_ids=tuple(range(64))),
            verdict=a_verdict(f"i_{n:04d}", 0.1),
        )
        for n in range(4)
    ]
    good = [
        Judged(interaction=an_interaction(n, token_ids=tuple(range(20))), verdict=a_verdict(f"i_{n:04d}", 0.9))
        for n in range(4, 8)
    ]
    assert [mode.label for mode in modes_of([*failed, *good], [], [])] == [
        "failed answers have a median of 64 tokens, good ones 20",
        "100% of the failed answers stop at the token limit, of the good ones 0%",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "mail me at ana.b@example.com",
        "-----BEGIN RSA PRIVATE KEY-----",
        "password: hunter2222",
        "4111 1111 1111 1111",
        "call +44 20 7946 0958",
        "sk-abcdefghijklmnop1234",
    ],
)
def test_private_data_is_seen(text: str) -> None:
    """Common shapes of secrets and personal data are found."""
    assert find_private(None, text) is not None


def test_plain_numbers_are_not_private() -> None:
    """Years, prices and sums pass."""
    assert find_private("In 1969 it cost 24,000,000,000 dollars; 3 + 4 = 7.", None) is None
