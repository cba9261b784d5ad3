"""Fresh answers of the student in training, to the questions that it is taught on."""

from collections.abc import Iterator, Sequence

import torch
from peft import PeftModel
from transformers import GenerationConfig

from updater.training import EncodedExample, OwnAnswers

MAX_CACHED_TOKENS = 8192
"""Keys and values of one batch: 378 MB for the starter model, less than a backward takes."""


def sample_own_answers(
    policy: PeftModel, questions: Sequence[EncodedExample], wanted: OwnAnswers, *, temperature: float
) -> list[EncodedExample]:
    """`wanted.per_question` examples per question, in their order, drawn from torch's global generator."""
    # A model's own defaults (a repetition penalty, say) would bend the distribution that is to be judged.
    policy.base_model.model.generation_config = GenerationConfig()
    rows = [question for question in questions for _ in range(wanted.per_question)]
    answers = [
        answer for batch in batches_of(rows, wanted.max_tokens) for answer in sample(policy, batch, wanted, temperature)
    ]
    return [
        row.model_copy(update={"token_ids": answer, "follow_teacher": False})
        for row, answer in zip(rows, answers, strict=True)
    ]


def batches_of(rows: Sequence[EncodedExample], max_tokens: int) -> Iterator[list[EncodedExample]]:
    """Neighbours together, as many as the cache may hold at their full length; one row at the least."""
    batch: list[EncodedExample] = []
    for row in rows:
        width = max(len(one.student_ids) for one in (*batch, row))
        if batch and (len(batch) + 1) * (width + max_tokens) > MAX_CACHED_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def sample(
    policy: PeftModel, batch: Sequence[EncodedExample], wanted: OwnAnswers, temperature: float
) -> list[tuple[int, ...]]:
    """One answer a row, end of turn included."""
    width = max(len(row.student_ids) for row in batch)
    padding = wanted.stop_token_ids[0]
    # Left-padded, so that every answer begins at the same column.
    prompts = torch.tensor([(padding,) * (width - len(row.student_ids)) + row.student_ids for row in batch])  # (N, T)
    mask = torch.tensor([[0] * (width - len(row.student_ids)) + [1] * len(row.student_ids) for row in batch])
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
    return [until_stop(answer, wanted.stop_token_ids) for answer in sampled[:, width:].tolist()]


def until_stop(answer: Sequence[int], stop_token_ids: Sequence[int]) -> tuple[int, ...]:
    """The answer up to and with its first stop token; what follows it is padding."""
    end = next((place for place, token in enumerate(answer, start=1) if token in stop_token_ids), len(answer))
    return tuple(answer[:end])
