"""Distillation from a correction: the teacher has seen the answer that should have been given, and judges it.

Source: SDFT / OPSD (arXiv 2601.19897). Departure: the tokens are the correction's own, since the served answer is
what the user replaced; the teacher's full distribution along them, rather than the bare tokens, is the target, which
keeps what the policy already knows about other good continuations.
"""

from memory.records import Interaction
from memory.tokens import Tokenizer
from updater.objectives.hindsight import add_to_question, plain_messages, student_prompt
from updater.training import EncodedExample

DEMONSTRATION = "For this question a good answer is: {correction}"


def correction_tokens(tokenizer: Tokenizer, correction: str) -> tuple[int, ...]:
    """The correction as the policy would have to say it, end of turn included."""
    return (*tokenizer.encode(correction), tokenizer.stop_token_ids[0])


def encode_correction(tokenizer: Tokenizer, interaction: Interaction, correction: str, weight: float) -> EncodedExample:
    shown = add_to_question(plain_messages(interaction), DEMONSTRATION.format(correction=correction))
    return EncodedExample(
        interaction_id=interaction.id,
        student_ids=student_prompt(tokenizer, interaction),
        teacher_ids=tokenizer.render_chat(shown),
        token_ids=correction_tokens(tokenizer, correction),
        weight=weight,
        teacher_is_base=False,
        follow_teacher=False,
    )
