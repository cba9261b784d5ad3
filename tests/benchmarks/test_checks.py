"""What demo_learning demands, on made-up answers: a good run passes and each kind of bad one is told."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agent.demo.oracle import Answer
from agent.demo.scenario import Kind
from benchmarks.common import bootstrap_interval
from benchmarks.demo_learning import details_of
from benchmarks.learning.arms import Answers, Arm, Learned, ServedLog
from benchmarks.learning.checks import Check, check_arms, check_seed, harm_of
from benchmarks.learning.teacher_quality import Quality


def answers(lengths: Sequence[int], *, limit: int = 64) -> list[Answer]:
    return [
        Answer(prompt=f"prompt {i}", text="", num_tokens=min(n, limit), ended=n < limit, model="policy@v1")
        for i, n in enumerate(lengths)
    ]


FROZEN: Answers = {Kind.QUESTION: answers([64] * 20), Kind.STORY: answers([64] * 20)}
TAUGHT: Answers = {Kind.QUESTION: answers([20] * 19 + [64]), Kind.STORY: answers([64] * 20)}
GOOD_QUALITY = Quality(hint="be brief", ours=-1.0, teachers_own=-1.1, low=0.0, high=0.2)
LEARNED = Learned(
    seed=0,
    log=ServedLog(data_dir=Path(), seconds=1.0, interaction_ids=()),
    data_dir=Path(),
    update={"status": "published", "reason": "", "published_version": 1},
    seconds=2.0,
    frozen=FROZEN,
    answers=TAUGHT,
    quality=GOOD_QUALITY,
    why_trained=None,
    why_left_out=None,
)


def failed(checks: Sequence[Check]) -> list[str]:
    return [check.name for check in checks if not check.ok]


def test_a_good_run_passes() -> None:
    """Short answers, stories as before and answers the teacher likes: nothing to complain of."""
    assert failed(check_seed(LEARNED, FROZEN)) == []


def test_nothing_published_fails() -> None:
    """An update that did not run, or was not published, is not a success."""
    one = replace(LEARNED, update={"status": "not run", "reason": "sabotage"}, answers={}, quality=None)
    assert failed(check_seed(one, FROZEN)) == ["seed 0: published"]


def test_shorter_stories_are_harm() -> None:
    """Stories that became shorter or end early are told, and so is the arm that is meant to do so."""
    hurt: Answers = {Kind.QUESTION: TAUGHT[Kind.QUESTION], Kind.STORY: answers([40] * 10 + [64] * 10)}
    assert harm_of(hurt, FROZEN)["harmed"]
    assert failed(check_seed(replace(LEARNED, answers=hurt), FROZEN)) == ["seed 0: stories unharmed"]
    ungated = {"no replay, no gate": Arm(status="taken as it is", reason="", answers=hurt)}
    assert failed(check_arms(LEARNED, ungated)) == []
    unhurt = {"no replay, no gate": Arm(status="taken as it is", reason="", answers=TAUGHT)}
    assert failed(check_arms(LEARNED, unhurt)) == ["no replay, no gate: hurts the stories"]


def test_longer_stories_are_harm_as_well() -> None:
    """Where the frozen policy ends by itself, growing is a change that nobody asked for."""
    before: Answers = {Kind.STORY: answers([30] * 20)}
    after: Answers = {Kind.STORY: answers([30] * 8 + [50] * 12)}
    assert harm_of(after, before)["harmed"]
    assert not harm_of(before, before)["harmed"]


def test_worse_answers_than_the_teachers_fail() -> None:
    """Answers that the told teacher finds clearly less likely than its own are not good enough."""
    one = replace(LEARNED, quality=replace(GOOD_QUALITY, ours=-2.0, low=-1.2, high=-0.6))
    assert len(failed(check_seed(one, FROZEN))) == 1


def test_permuted_feedback_must_be_refused_not_fail() -> None:
    """Only a decision counts: an update that broke down has shown nothing."""
    for status, ok in (("skipped", True), ("rejected", True), ("failed", False), ("published", False)):
        checks = check_arms(LEARNED, {"permuted feedback": Arm(status=status, reason="")})
        assert (failed(checks) == []) is ok


def test_contrary_wish_must_lengthen() -> None:
    """The contrary arm passes when its answers grew, and not when nothing was published or they shrank."""
    base: Answers = {Kind.QUESTION: answers([150] * 10 + [200] * 10, limit=256)}
    longer: Answers = {Kind.QUESTION: answers([200] * 10 + [240] * 10, limit=256)}
    grown = Arm(status="published", reason="", answers=longer, base_answers=base)
    shrunk = Arm(status="published", reason="", answers=base, base_answers=longer)
    refused = Arm(status="skipped", reason="no gap")
    seen = [failed(check_arms(LEARNED, {"contrary wish": arm})) == [] for arm in (grown, shrunk, refused)]
    assert seen == [True, False, False]


def test_last_line_can_be_written() -> None:
    """All that was measured, with its checks, is JSON; so is a run in which nothing was published."""
    unpublished = replace(LEARNED, update={"status": "not run", "reason": ""}, answers={}, quality=None)
    for one in (LEARNED, unpublished):
        arms = {"permuted feedback": Arm(status="skipped", reason="mixed")}
        checks = check_seed(one, FROZEN) + check_arms(one, arms)
        details = json.loads(json.dumps(details_of([one], arms, checks)))
        assert details["seeds"]["0"]["status"] == one.update["status"]
        assert len(details["checks"]) == len(checks)


def test_bootstrap_interval_holds_the_mean() -> None:
    """The interval of equal differences is a point; of differing ones it spans their mean."""
    assert bootstrap_interval([2.0] * 5) == (2.0, 2.0)
    low, high = bootstrap_interval([-1.0, 0.0, 1.0, 2.0, 3.0])
    assert low < 1.0 < high
