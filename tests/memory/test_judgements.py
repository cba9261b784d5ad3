"""What reflection and updater keep in the store."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from memory.records import (
    Abstention,
    Assignment,
    Cluster,
    Evidence,
    Example,
    FailureMode,
    Feedback,
    Reflection,
    ReflectionPass,
    Update,
    Use,
    Verdict,
    Version,
)
from memory.states import EvidenceKind, Method, PassStatus, Remedy, Split, UpdateStatus, VersionOrigin
from memory.store import Store
from tests.memory.builders import START, an_interaction

PASS = ReflectionPass(id="pass_1", trigger="manual", started_at=START)
UPDATE = Update(id="upd_1", trigger="manual", started_at=START, parent_version=0)


@pytest.fixture
async def filled(store: Store) -> Store:
    """Three interactions to judge."""
    await store.interactions.add([an_interaction(f"int_{n}") for n in range(3)])
    return store


def a_verdict(identity: str, interaction_id: str = "int_0", minute: int = 0, score: float = 0.5) -> Verdict:
    created_at = START + timedelta(minutes=minute)
    return Verdict(
        id=identity, created_at=created_at, pass_id="pass_1", interaction_id=interaction_id, score=score, reasons=("r",)
    )


def an_example(identity: str, interaction_id: str = "int_0", **fields: object) -> Example:
    values: dict[str, object] = {
        "id": identity,
        "created_at": START,
        "reflection_id": "ref_1",
        "interaction_id": interaction_id,
        "cluster_id": "clu_1",
        "principal": "p1",
        "method": Method.HINDSIGHT,
        "split": Split.TRAIN,
        "hint": "Shorter.",
    }
    return Example(**(values | fields))  # type: ignore[arg-type]


async def test_feedback_is_kept_by_interaction(filled: Store) -> None:
    """All that was said of an interaction comes back in order; feedback on nothing is refused."""
    first = Feedback(
        id="fb_1", created_at=START, principal="p1", interaction_id="int_0", score=-1.0, comment="Too long"
    )
    second = Feedback(
        id="fb_2", created_at=START, principal="p1", interaction_id="int_0", metric_name="m", metric_value=3
    )
    await filled.feedback.add(first)
    await filled.feedback.add(second)
    await filled.feedback.add(second)
    assert await filled.feedback.for_interactions(["int_0", "int_1"]) == {"int_0": [first, second]}
    assert await filled.feedback.count() == 2
    assert await filled.feedback.count(after_id="fb_1") == 1
    with pytest.raises(IntegrityError):
        await filled.feedback.add(replace(first, id="fb_3", interaction_id="int_unknown"))


async def test_a_pass_ends_once(store: Store) -> None:
    """A pass has one beginning and one end."""
    await store.judgements.begin_pass(PASS)
    done = replace(PASS, status=PassStatus.DONE, ended_at=START, num_verdicts=2)
    with pytest.raises(ValueError, match="running"):
        await store.judgements.end_pass(PASS)
    await store.judgements.end_pass(done)
    with pytest.raises(LookupError):
        await store.judgements.end_pass(replace(done, num_verdicts=9))
    await store.judgements.begin_pass(replace(PASS, id="pass_2"))
    assert await store.judgements.get_pass("pass_1") == done
    assert [one.id for one in await store.judgements.passes()] == ["pass_2", "pass_1"]


async def test_evidence_counts_once_a_source(filled: Store) -> None:
    """The same next turn, gathered in two passes, is one piece of evidence."""
    first = Evidence(
        id="ev_1",
        created_at=START,
        interaction_id="int_0",
        kind=EvidenceKind.NEXT_TURN,
        source_id="int_1",
        text="Shorter!",
    )
    await filled.judgements.add_evidence([first, replace(first, id="ev_2")])
    await filled.judgements.add_evidence([replace(first, id="ev_3")])
    assert await filled.judgements.evidence_for(["int_0", "int_1"]) == {"int_0": [first]}


async def test_the_latest_decision_counts(filled: Store) -> None:
    """Later evidence appends a decision, whichever kind, and the old one stays beneath."""
    abstained = Abstention(
        id="abs_1", created_at=START + timedelta(minutes=2), pass_id="pass_2", interaction_id="int_0", reason="?"
    )
    await filled.judgements.add_verdicts(
        [a_verdict("ver_2", minute=1), a_verdict("ver_1"), a_verdict("ver_3", "int_1")]
    )
    await filled.judgements.add_abstentions([abstained])
    latest = await filled.judgements.latest(["int_0", "int_1", "int_2"])
    assert latest == {"int_0": abstained, "int_1": a_verdict("ver_3", "int_1")}
    await filled.judgements.add_verdicts([a_verdict("ver_4", minute=3, score=0.9)])
    assert (await filled.judgements.latest(["int_0"]))["int_0"].id == "ver_4"


async def test_a_split_never_changes(filled: Store) -> None:
    """What was held out for the audit cannot drift into training; the cluster may change."""
    first = Assignment(interaction_id="int_0", group_id="grp_1", split=Split.AUDIT)
    await filled.judgements.put_assignments([first])
    moved = Assignment(
        interaction_id="int_0",
        group_id="grp_2",
        split=Split.TRAIN,
        cluster_id="clu_1",
        state="assigned",
        similarity=0.9,
    )
    await filled.judgements.put_assignments([moved, Assignment(interaction_id="int_1", group_id="g", split=Split.GATE)])
    expected = replace(moved, group_id="grp_1", split=Split.AUDIT)
    assert await filled.judgements.assignments(["int_0"]) == {"int_0": expected}
    assert set(await filled.judgements.assignments()) == {"int_0", "int_1"}


async def test_clusters_are_kept_as_they_stand(store: Store) -> None:
    """A cluster is overwritten by its newer self, but for its birth."""
    old = Cluster(
        id="clu_1", label="questions", centroid=(0.5, 0.5), size=3, num_principals=2, created_at=START, updated_at=START
    )
    later = START + timedelta(days=1)
    new = replace(old, label="everyday questions", size=9, trend=0.25, created_at=later, updated_at=later)
    await store.judgements.put_clusters([old, replace(old, id="clu_2", size=5)])
    await store.judgements.put_clusters([new])
    assert await store.judgements.clusters() == [replace(new, created_at=START), replace(old, id="clu_2", size=5)]


async def test_reflections_newest_first(store: Store) -> None:
    """Reflections are found by pass and by cluster, nested parts whole."""
    one = Reflection(
        id="ref_1",
        created_at=START,
        pass_id="pass_1",
        cluster_id="clu_1",
        label="questions",
        num_interactions=9,
        num_judged=5,
        num_principals=3,
        score=0.25,
        score_low=0.125,
        score_high=0.5,
        failure_modes=(FailureMode(label="long", count=4, evidence_ids=("ev_1", "ev_2")),),
        diagnosis="Too long.",
        remedy=Remedy.WEIGHTS,
        num_proposed=4,
        left_out=(("learn is off", 2),),
    )
    other = replace(one, id="ref_2", pass_id="pass_2", score=None, score_low=None, score_high=None)
    await store.judgements.add_reflections([one, other])
    assert await store.judgements.reflections() == [other, one]
    assert await store.judgements.reflections(pass_id="pass_1") == [one]
    assert await store.judgements.reflections(cluster_id="clu_2") == []


async def test_the_newest_example_of_a_method_counts(filled: Store) -> None:
    """Curating again replaces an example for the same interaction and method, and no other."""
    corrected = an_example("exa_2", method=Method.CORRECTION, correction="Ice that flows.")
    newer, held_out = (
        an_example("exa_3", hint="One sentence."),
        an_example("exa_4", "int_1", split=Split.GATE, cluster_id="clu_2"),
    )
    await filled.judgements.add_examples([an_example("exa_1"), corrected])
    await filled.judgements.add_examples([newer, held_out])
    assert await filled.judgements.examples() == [corrected, newer, held_out]
    assert await filled.judgements.examples(split=Split.GATE) == [held_out]
    assert await filled.judgements.examples(cluster_id="clu_1") == [corrected, newer]


async def test_an_update_ends_exactly_once(store: Store) -> None:
    """Published, rejected, skipped or failed: one of them, for ever."""
    await store.updates.begin(UPDATE)
    ended = replace(UPDATE, status=UpdateStatus.REJECTED, reason="harm", ended_at=START)
    await store.updates.end(ended)
    with pytest.raises(LookupError):
        await store.updates.end(replace(ended, status=UpdateStatus.PUBLISHED))
    with pytest.raises(LookupError):
        await store.updates.end(replace(ended, id="upd_unknown"))
    assert await store.updates.get("upd_1") == ended
    assert await store.updates.list() == [ended]


async def test_uses_answer_why(filled: Store) -> None:
    """What an update did with an interaction is found from either side."""
    await filled.updates.begin(UPDATE)
    uses = [
        Use(update_id="upd_1", interaction_id="int_0", role="trained", reason="hint", weight=0.5),
        Use(update_id="upd_1", interaction_id="int_1", role="left_out", reason="abstained"),
    ]
    await filled.updates.add_uses(uses)
    assert await filled.updates.uses_in("upd_1") == uses
    assert await filled.updates.uses_of("int_1") == uses[1:]


async def test_live_is_the_highest_number_of_its_lineage(store: Store) -> None:
    """Numbers never restart, a number is given once, and another base model has a live version of its own."""
    base = Version(number=0, parent=None, origin=VersionOrigin.BASE, base_fingerprint="a", created_at=START)
    trained = replace(
        base, number=1, parent=0, origin=VersionOrigin.UPDATE, update_id="upd_1", adapter_path="versions/1"
    )
    other = replace(base, number=2, base_fingerprint="b")
    assert await store.updates.live("a") is None
    for version in (base, other, trained):
        await store.updates.add_version(version)
    with pytest.raises(IntegrityError):
        await store.updates.add_version(replace(trained, note="again"))
    assert await store.updates.versions() == [base, trained, other]
    assert await store.updates.version(2) == other
    assert await store.updates.version(9) is None
    assert await store.updates.live("a") == trained
    assert await store.updates.live("b") == other


async def test_state_keeps_the_newest_value(store: Store) -> None:
    """A cursor is overwritten; one that was never set is None."""
    assert await store.state.get("cursor") is None
    await store.state.set("cursor", "1")
    await store.state.set("cursor", "2")
    assert await store.state.get("cursor") == "2"
