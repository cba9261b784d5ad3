"""The training loop on a tiny real model."""

from pathlib import Path

import pytest
import torch

from updater.adapter import check_adapter
from updater.train import num_reached, set_step_size, train
from updater.training import EncodedExample, OwnAnswers, TrainingPlan, TrainingResult, passes_for

pytestmark = pytest.mark.filterwarnings("ignore")  # peft and transformers warn about their own future

PROMPT = tuple(range(10, 20))
HINTED = (*PROMPT, 30, 31, 32)
TWO_OWN = OwnAnswers(per_question=2, max_tokens=8, stop_token_ids=(2,))


def example(number: int, *, replay: bool = False) -> EncodedExample:
    prompt = (*PROMPT, 40 + number)
    return EncodedExample(
        interaction_id=str(number),
        student_ids=prompt,
        teacher_ids=prompt if replay else (*prompt, 30, 31, 32),
        token_ids=tuple(50 + number + i for i in range(6)),
        weight=1.0,
        teacher_is_base=False,
        follow_teacher=not replay,
    )


def plan(model: Path, **changes: object) -> TrainingPlan:
    fields: dict[str, object] = {
        "model_dir": model,
        "base_fingerprint": "b" * 64,
        "parent_adapter": None,
        "examples": tuple(example(n) for n in range(5)),
        "replays": tuple(example(n, replay=True) for n in range(10, 13)),
        "rank": 4,
        "learning_rate": 5e-3,
        "amplification": 0.0,
        "temperature": 1.0,
        "sharpness": 1.0,
        "num_passes": 3,
        "own_answers": OwnAnswers(per_question=0, max_tokens=8, stop_token_ids=(2,)),
        "batch_size": 4,
        "replay_ratio": 0.5,
        "scales": (0.5, 1.0),
        "seed": 1,
        "proof_prompts": (PROMPT,),
    }
    return TrainingPlan.model_validate(fields | changes)


def run(model: Path, workdir: Path, **changes: object) -> TrainingResult:
    workdir.mkdir()
    return train(plan(model, **changes), workdir, lambda *_: None)


def test_training_approaches_the_teacher_and_saves_every_point(tiny_model: Path, tmp_path: Path) -> None:
    """The loss falls from pass to pass, each scale is a loadable candidate, and smaller scales move less."""
    result = run(tiny_model, tmp_path / "work")
    assert result.passes[-1].example_kl_nats < result.passes[0].example_kl_nats
    assert [c.scale for c in result.candidates] == [0.5, 1.0]
    for candidate in result.candidates:
        check_adapter(candidate.directory, sha256=candidate.sha256, base_fingerprint="b" * 64, parent=None)
    assert result.candidates[0].delta_norm < result.candidates[1].delta_norm


def test_the_students_own_answers_bring_it_nearer_to_the_teacher(tiny_model: Path, tmp_path: Path) -> None:
    """They are taught after the given ones, in a pass of their own; replays go with them."""
    result = run(tiny_model, tmp_path / "work", own_answers=TWO_OWN)
    assert [one.own_answers for one in result.passes] == [False, False, False, True]
    more = run(tiny_model, tmp_path / "more", own_answers=TWO_OWN.model_copy(update={"per_question": 12}))
    assert more.passes[-1].example_kl_nats < result.passes[-1].example_kl_nats
    assert more.passes[-1].replay_kl_nats is not None


def test_the_same_seed_gives_the_same_bytes(tiny_model: Path, tmp_path: Path) -> None:
    """One plan is one adapter, so that a version can be rebuilt."""
    first = run(tiny_model, tmp_path / "one", own_answers=TWO_OWN)
    second = run(tiny_model, tmp_path / "two", own_answers=TWO_OWN)
    assert [c.sha256 for c in first.candidates] == [c.sha256 for c in second.candidates]


def test_an_update_continues_its_parent(tiny_model: Path, tmp_path: Path) -> None:
    """Under a published parent the student starts where the parent is: the parent's proof is the candidate's before."""
    first = run(tiny_model, tmp_path / "one")
    parent = first.candidates[-1]
    second = run(tiny_model, tmp_path / "two", parent_adapter=parent.directory)
    assert second.parent_logprobs[0] == pytest.approx(parent.proof_logprobs[0], abs=1e-5)
    assert second.candidates[-1].delta_norm > 0


def test_replay_alone_barely_moves(tiny_model: Path, tmp_path: Path) -> None:
    """Replay's teacher is the student itself at the start: what is only replayed stays."""
    only_replay = {"examples": tuple(example(n, replay=True) for n in range(5)), "replays": (), "num_passes": 1}
    result = run(tiny_model, tmp_path / "work", **only_replay)
    assert (result.passes[0].replay_kl_nats or 1.0) < 0.01


def test_the_end_of_an_answer_that_the_teacher_would_not_have_reached_is_cut_off() -> None:
    assert num_reached(torch.tensor([1.0, 0.5, 0.02, 0.001, 0.0, 0.0])) == 3
    assert num_reached(torch.ones(4)) == 4


def test_few_examples_are_passed_over_more_often() -> None:
    assert passes_for(51, batch_size=8, max_passes=2) == 1
    assert passes_for(24, batch_size=8, max_passes=4) == 2
    assert passes_for(8, batch_size=8, max_passes=2) == 2


def test_the_step_size_warms_up_and_then_falls_to_half() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    sizes = []
    for step in range(10):
        set_step_size(optimizer, 2.0, step, 10)
        sizes.append(optimizer.param_groups[0]["lr"])
    assert sizes[:2] == [1.0, pytest.approx(1.9)]
    assert sizes[1:] == sorted(sizes[1:], reverse=True)
    assert sizes[-1] == pytest.approx(1.1)
