"""Fresh answers of the student in training, to the questions that it is taught on."""

from collections.abc import Sequence

import torch
from peft import PeftModel

from updater.training import EncodedExample, OwnAnswers


def sample_own_answers(
    policy: PeftModel, questions: Sequence[EncodedExample], wanted: OwnAnswers, *, temperature: float
) -> list[EncodedExample]:
    """`wanted.per_question` examples per question, all drawn in one batch from torch's global generator."""
    rows = [question for question in questions for _ in range(wanted.per_question)]
    if not rows:
        return []
    width = max(len(row.student_ids) for row in rows)
    padding = wanted.stop_token_ids[0]
    # Left-padded, so that every answer begins at the same column.
    prompts = torch.tensor([(padding,) * (width - len(row.student_ids)) + row.student_ids for row in rows])  # (N, T)
    mask = torch.tensor([[0] * (width - len(row.student_ids)) + [1] * len(row.student_ids) for row in rows])
    with torch.no_grad():
        sampled = policy.generate(
            input_ids=prompts,
            attention_mask=mask,
            max_new_tokens=wanted.max_tokens,
            do_sample=True,
            temperature=temperature,
            top_k=0,
            top_p=1.0,
            eos_token_id=list(wanted.stop_token_ids),
            pad_token_id=padding,
        )
    answers = [until_stop(answer, wanted.stop_token_ids) for answer in sampled[:, width:].tolist()]
    return [
        row.model_copy(update={"token_ids": answer, "follow_teacher": False})
        for row, answer in zip(rows, answers, strict=True)
    ]


def until_stop(answer: Sequence[int], stop_token_ids: Sequence[int]) -> tuple[int, ...]:
    """The answer up to and with its first stop token; what follows it is padding."""
    end = next((place for place, token in enumerate(answer, start=1) if token in stop_token_ids), len(answer))
    return tuple(answer[:end])
