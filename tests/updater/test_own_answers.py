"""The student in training answers the questions that it is taught on."""

from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, GenerationConfig

from updater.own_answers import batches_of, sample_own_answers, until_stop
from updater.training import EncodedExample, OwnAnswers

pytestmark = pytest.mark.filterwarnings("ignore")  # peft and transformers warn about their own future

WANTED = OwnAnswers(per_question=2, max_tokens=12, stop_token_ids=(2,))


@pytest.fixture
def policy(tiny_model: Path) -> PeftModel:
    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    return get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"))


def question(length: int) -> EncodedExample:
    prompt = tuple(range(10, 10 + length))
    return EncodedExample(
        interaction_id=str(length),
        student_ids=prompt,
        teacher_ids=(*prompt, 30),
        token_ids=(50, 51),
        weight=0.5,
        teacher_is_base=False,
        follow_teacher=True,
    )


def test_every_question_is_answered_as_often_as_wanted(policy: PeftModel) -> None:
    """Prompts, weight and teacher stay; the tokens are new, every one of them counts, and there are at most so many."""
    torch.manual_seed(1)
    answers = sample_own_answers(policy, [question(4), question(7)], WANTED, temperature=1.0)
    assert [row.interaction_id for row in answers] == ["4", "4", "7", "7"]
    assert [row.student_ids for row in answers[1:3]] == [question(4).student_ids, question(7).student_ids]
    assert all(row.weight == 0.5 and not row.follow_teacher for row in answers)
    assert all(1 <= len(row.token_ids) <= 12 for row in answers)
    assert answers[0].token_ids != answers[1].token_ids


def test_a_shorter_prompt_beside_a_longer_one_is_answered_as_alone(policy: PeftModel) -> None:
    """Padding has no say. Nearly greedy, so that the draws do not differ."""
    alone = sample_own_answers(policy, [question(4)], WANTED, temperature=1e-4)
    beside = sample_own_answers(policy, [question(4), question(9)], WANTED, temperature=1e-4)
    assert [row.token_ids for row in beside[:2]] == [row.token_ids for row in alone]


def test_a_models_own_defaults_do_not_bend_the_draws(policy: PeftModel) -> None:
    """Some models come with a repetition penalty or a narrow top-p for chatting."""
    torch.manual_seed(1)
    plain = sample_own_answers(policy, [question(4)], WANTED, temperature=1.0)
    policy.base_model.model.generation_config = GenerationConfig(repetition_penalty=50.0, top_p=0.01, min_p=0.9)
    torch.manual_seed(1)
    assert sample_own_answers(policy, [question(4)], WANTED, temperature=1.0) == plain


def test_batches_hold_what_the_cache_may() -> None:
    """Every row is in one batch, in order; a prompt that is too long for company goes alone."""
    rows = [question(100)] * 3 + [question(9000)] + [question(100)]
    batches = list(batches_of(rows, 2600))
    assert [row for batch in batches for row in batch] == rows
    assert [len(batch) for batch in batches] == [3, 1, 1]


def test_no_questions_no_answers(policy: PeftModel) -> None:
    assert sample_own_answers(policy, [], WANTED, temperature=1.0) == []
    none = WANTED.model_copy(update={"per_question": 0})
    assert sample_own_answers(policy, [question(4)], none, temperature=1.0) == []


def test_an_answer_ends_with_its_first_stop_token() -> None:
    assert until_stop([5, 6, 2, 2, 2], [2]) == (5, 6, 2)
    assert until_stop([5, 6, 7], [2]) == (5, 6, 7)
