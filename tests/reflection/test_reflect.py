"""The pass on a real store with the real clustering child: complaints about questions, praise for stories."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from agent.supervisor import ChildRunner
from memory.child import RunChild
from memory.embedder import Embedder
from memory.records import Abstention, Feedback, Interaction, Verdict
from memory.states import Method, PassStatus, Remedy, Split
from memory.store import Store, open_store
from reflection.reflect import FEEDBACK_TURN, ReflectDeps, run_pass
from reflection.settings import ReflectionSettings
from tests.fakes_reflection import CountedRunner, WordEmbedder
from tests.reflection.builders import T0, a_follow_up, an_interaction, requests_of

WISHES = {
    "p1": ["Way too long. One short sentence would have been enough.", "Still too long. One short sentence!"],
    "p2": ["Please answer in one short sentence.", "One short sentence, please."],
    "p3": ["I only wanted one short sentence.", "No, I asked for a short answer. One short sentence."],
    "p4": ["Don't ramble. One short sentence is all I need."],
    "p5": ["I wanted a lot more detail than that, please explain at length."],
}
READERS = ("p6", "max", "noa")
NOW = T0 + timedelta(days=2)

Log = tuple[list[Interaction], list[Feedback]]


def _quiet(stage: str, done: int, total: int) -> None:
    pass


def _deps(
    store: Store, directory: Path, *, embedder: Embedder | None = None, run_child: RunChild | None = None
) -> ReflectDeps:
    return ReflectDeps(
        store=store,
        embedder=embedder or WordEmbedder(),
        run_child=run_child or ChildRunner(),
        settings=ReflectionSettings(),
        work_dir=directory / "work",
        now=lambda: NOW,
    )


def _log(*, num_questions: int = 44, num_stories: int = 20) -> Log:
    """Questions with complaints in the next turn; stories with praise, half in the next turn and half as a thumb."""
    interactions: list[Interaction] = []
    feedback: list[Feedback] = []
    names = list(WISHES)
    for number, text in enumerate(requests_of("questions")[:num_questions]):
        name = names[number % len(names)]
        asked = an_interaction(2 * number, text, principal=name)
        wishes = WISHES[name]
        said = a_follow_up(2 * number + 1, asked, wishes[number // len(names) % len(wishes)])
        interactions += [asked, said]
    for number, text in enumerate(requests_of("stories")[:num_stories]):
        told = an_interaction(1000 + 2 * number, text, principal=READERS[number % len(READERS)])
        interactions.append(told)
        if number % 2:
            interactions.append(a_follow_up(1001 + 2 * number, told, "Lovely, thank you!"))
        else:
            feedback.append(_thumb(told, 1.0, comment="Great story."))
    return interactions, feedback


def _thumb(interaction: Interaction, score: float, *, comment: str | None = None) -> Feedback:
    return Feedback(
        id=f"fb_{interaction.id}_{score}",
        created_at=NOW,
        principal=interaction.principal,
        interaction_id=interaction.id,
        score=score,
        comment=comment,
    )


async def _fill(store: Store, log: Log) -> None:
    interactions, feedback = log
    await store.interactions.add(interactions)
    for row in feedback:
        await store.feedback.add(row)


async def test_complaints_become_a_proposal_and_praise_becomes_replay(tmp_path: Path) -> None:
    """Two kinds; the questions' cluster proposes weights from the users' words; the stories' cluster is left alone."""
    async with open_store(tmp_path) as store:
        await _fill(store, _log())
        stages: list[str] = []
        ended = await run_pass(
            _deps(store, tmp_path), trigger="manual", pass_id="pass_1", report=lambda stage, *_: stages.append(stage)
        )
        assert (ended.status, ended.num_verdicts) == (PassStatus.DONE, 64)
        assert list(dict.fromkeys(stages)) == ["embed", "map", "judge", "reflect"]
        questions, stories = await store.judgements.clusters()
        assert (questions.size, stories.size) == (44, 20)
        by_cluster = {row.cluster_id: row for row in await store.judgements.reflections(pass_id="pass_1")}
        told, praised = by_cluster[questions.id], by_cluster[stories.id]
        assert (told.remedy, praised.remedy) == (Remedy.WEIGHTS, Remedy.NOTHING)
        assert any("one short sentence" in mode.label for mode in told.failure_modes)
        assert dict(told.left_out) == {FEEDBACK_TURN: 44}
        assert (praised.num_proposed, praised.num_principals) == (0, 3)
        train = await store.judgements.examples(split=Split.TRAIN, cluster_id=questions.id)
        assert len(train) == told.num_proposed >= 24
        assert {example.method for example in train} == {Method.HINDSIGHT}
        said = {wish for wishes in WISHES.values() for wish in wishes}
        assert {example.hint for example in train} <= said
        replay = await store.judgements.examples(cluster_id=stories.id)
        assert {example.method for example in replay} == {Method.REPLAY}
        assert all(Counter(e.split for e in replay)[split] >= 4 for split in Split)


async def test_nothing_new_is_skipped_and_new_evidence_is_not(tmp_path: Path) -> None:
    """A pass without news writes nothing; a later thumb appends a verdict and withdraws the example it contradicts."""
    async with open_store(tmp_path) as store:
        await _fill(store, _log())
        deps = _deps(store, tmp_path)
        await run_pass(deps, trigger="manual", pass_id="pass_1", report=_quiet)
        second = await run_pass(deps, trigger="every", pass_id="pass_2", report=_quiet)
        assert (second.status, second.reason) == (PassStatus.SKIPPED, "nothing new since the last pass")
        first = (await store.judgements.examples(split=Split.TRAIN))[0]
        (asked,) = await store.interactions.get_many([first.interaction_id])
        await store.feedback.add(_thumb(asked, 1.0))
        third = await run_pass(deps, trigger="every", pass_id="pass_3", report=_quiet)
        assert (third.status, third.num_verdicts) == (PassStatus.DONE, 1)
        stand = {e.method: e.weight for e in await store.judgements.examples() if e.interaction_id == asked.id}
        assert stand == {Method.HINDSIGHT: 0.0, Method.REPLAY: 1.0}
        assert [row.pass_id for row in await store.judgements.reflections(cluster_id=first.cluster_id)] == [
            "pass_3",
            "pass_1",
        ]


async def test_growth_keeps_ids_and_splits(tmp_path: Path) -> None:
    """When the log grows by half the map is drawn anew: clusters keep their ids, interactions their splits."""
    async with open_store(tmp_path) as store:
        interactions, feedback = _log(num_questions=68, num_stories=30)
        early = [one for one in interactions if one.id < "i_0088" or "i_1000" <= one.id < "i_1040"]
        known = {one.id for one in early}
        await _fill(store, (early, [row for row in feedback if row.interaction_id in known]))
        runner = CountedRunner()
        deps = _deps(store, tmp_path, run_child=runner)
        await run_pass(deps, trigger="manual", pass_id="pass_1", report=_quiet)
        before = {cluster.id for cluster in await store.judgements.clusters()}
        places = await store.judgements.assignments()
        late = [one for one in interactions if one.id not in known]
        await _fill(store, (late, [row for row in feedback if row.interaction_id not in known]))
        await run_pass(deps, trigger="manual", pass_id="pass_2", report=_quiet)
        assert {cluster.id for cluster in await store.judgements.clusters()} == before
        after = await store.judgements.assignments()
        assert {key: after[key].split for key in places} == {key: place.split for key, place in places.items()}
        assert runner.num_runs == 2


async def test_newcomers_are_placed_without_a_new_map(tmp_path: Path) -> None:
    """Between maps a few new requests go to the nearest kind, and unlike ones wait outside."""
    async with open_store(tmp_path) as store:
        await _fill(store, _log())
        runner = CountedRunner()
        deps = _deps(store, tmp_path, run_child=runner)
        await run_pass(deps, trigger="manual", pass_id="pass_1", report=_quiet)
        strange = an_interaction(2001, "zxq vbn wrt plm kjh gfd", principal="p6")
        usual = an_interaction(2000, "Write a short story about a fox", principal="p6")
        await store.interactions.add([usual, strange])
        await run_pass(deps, trigger="manual", pass_id="pass_2", report=_quiet)
        places = await store.judgements.assignments([usual.id, strange.id])
        stories = (await store.judgements.clusters())[1]
        assert (places[usual.id].cluster_id, places[usual.id].state) == (stories.id, "assigned")
        assert (places[strange.id].cluster_id, places[strange.id].state) == (None, "outlier")
        assert runner.num_runs == 1


async def test_little_waits_for_the_map(tmp_path: Path) -> None:
    """Below the first map's number everything is judged, nothing is reflected on, and the pass says why."""
    async with open_store(tmp_path) as store:
        await _fill(store, _log(num_questions=3, num_stories=2))
        ended = await run_pass(_deps(store, tmp_path), trigger="manual", pass_id="pass_1", report=_quiet)
        assert ended.status is PassStatus.DONE
        assert "5 requests wait for the first map, which needs 8" in (ended.reason or "")
        assert await store.judgements.clusters() == []
        decided = await store.judgements.latest(["i_0000", "i_1000"])
        assert all(isinstance(row, Verdict) for row in decided.values())


async def test_silence_and_refusal_are_counted(tmp_path: Path) -> None:
    """Unanswered interactions are abstained on, those that may not be learned from are left out, both by reason."""
    async with open_store(tmp_path) as store:
        interactions, feedback = _log()
        interactions[0] = replace(interactions[0], learn=False)
        silent = an_interaction(900, "What is a comet?", principal="p1")
        await _fill(store, ([*interactions, silent], feedback))
        await run_pass(_deps(store, tmp_path), trigger="manual", pass_id="pass_1", report=_quiet)
        questions = (await store.judgements.clusters())[0]
        (row,) = await store.judgements.reflections(cluster_id=questions.id)
        assert dict(row.left_out) == {
            "kept out of learning at the client's request": 1,
            "not judged: nobody said anything of it": 1,
            FEEDBACK_TURN: 44,
        }
        assert isinstance((await store.judgements.latest([silent.id]))[silent.id], Abstention)


async def test_an_absent_embedder_fails_the_pass_in_words(tmp_path: Path) -> None:
    """The pass ends as failed with the reason, and the next one does the work."""
    async with open_store(tmp_path) as store:
        await _fill(store, _log())
        embedder = WordEmbedder()
        deps = _deps(store, tmp_path, embedder=embedder)
        embedder.is_up = False
        failed = await run_pass(deps, trigger="every", pass_id="pass_1", report=_quiet)
        assert (failed.status, failed.reason) == (PassStatus.FAILED, "the embedder is down")
        assert await store.judgements.get_pass("pass_1") == failed
        embedder.is_up = True
        assert (await run_pass(deps, trigger="every", pass_id="pass_2", report=_quiet)).status is PassStatus.DONE


async def test_a_dead_child_fails_the_pass_in_words(tmp_path: Path) -> None:
    """A clustering child that cannot do its work is a failed pass and no half-written map."""
    async with open_store(tmp_path) as store:
        await _fill(store, _log())

        deps = _deps(store, tmp_path, run_child=CountedRunner(spoil=lambda workdir: (workdir / "job.npz").unlink()))
        ended = await run_pass(deps, trigger="every", pass_id="pass_1", report=_quiet)
        assert ended.status is PassStatus.FAILED
        assert "job.npz" in (ended.reason or "")
        assert await store.judgements.clusters() == []


@pytest.mark.parametrize("text", ["Too long!", "What is a volcano?"])
async def test_the_double_gives_unit_vectors(text: str) -> None:
    """The embedder's double keeps the contract of the real one."""
    vectors = await WordEmbedder().embed([text, text], timeout_s=1.0)
    assert vectors.shape == (2, 256)
    assert (vectors**2).sum(axis=1) == pytest.approx([1.0, 1.0], abs=1e-5)
