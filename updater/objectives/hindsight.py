"""Hindsight self-distillation: the teacher reads the user's words, both judge the answer that was served.

Source: SDPO from user follow-ups (arXiv 2603.12273) and OpenClaw-RL's hindsight hints. Departures: frozen teacher,
stored token ids, full-vocabulary forward KL (forward_kl.py), and the hint is one of the users' own wordings, appended
to the question as if the user had added it (of the published placements the one that this size follows best:
EXPERIMENTS.md).
"""

from collections.abc import Sequence
from dataclasses import replace

from memory.records import Interaction, Message
from memory.tokens import Tokenizer
from updater.training import EncodedExample


def plain_messages(interaction: Interaction) -> tuple[Message, ...]:
    """The conversation as served, without recalled memory: what memory knew must become what the policy knows."""
    if interaction.system_prompt is None:
        return interaction.messages
    return (Message(role="system", content=interaction.system_prompt), *interaction.messages)


def add_to_question(messages: Sequence[Message], words: str) -> tuple[Message, ...]:
    """The same conversation, with `words` at the end of its last user message."""
    last = max(index for index, message in enumerate(messages) if message.role == "user")
    told = replace(messages[last], content=f"{messages[last].content}\n\n{words}")
    return (*messages[:last], told, *messages[last + 1 :])


def student_prompt(tokenizer: Tokenizer, interaction: Interaction) -> tuple[int, ...]:
    return tokenizer.render_chat(plain_messages(interaction))


def hinted_prompt(tokenizer: Tokenizer, interaction: Interaction, hint: str) -> tuple[int, ...]:
    return tokenizer.render_chat(add_to_question(plain_messages(interaction), hint))


def encode_hindsight(
    tokenizer: Tokenizer, interaction: Interaction, hint: str, *, weight: float, teacher_is_base: bool
) -> EncodedExample:
    return EncodedExample(
        interaction_id=interaction.id,
        student_ids=student_prompt(tokenizer, interaction),
        teacher_ids=hinted_prompt(tokenizer, interaction, hint),
        token_ids=interaction.token_ids,
        weight=weight,
        teacher_is_base=teacher_is_base,
        follow_teacher=True,
    )


def encode_told_answer(logged: EncodedExample, told_answer: tuple[int, ...]) -> EncodedExample:
    """The same question on the teacher's own answer when told (fresh token ids from the engine).

    The logged answer says where mass has to leave; this one says how it goes on from there, on prefixes that the
    student only visits once it has learnt. With logged answers alone the student stopped short of the teacher.
    """
    return logged.model_copy(update={"token_ids": told_answer, "follow_teacher": False})
