"""Replay: forward KL to the last published version on its own stored answers, so that what works stays.

Source: experience replay with distillation, as in the retention runs of SDFT (arXiv 2601.19897). The anchor is
always the parent, never the base: a base anchor un-teaches what was published before.
"""

from memory.records import Interaction
from memory.tokens import Tokenizer
from updater.objectives.hindsight import student_prompt
from updater.training import EncodedExample


def encode_replay(tokenizer: Tokenizer, interaction: Interaction) -> EncodedExample:
    prompt = student_prompt(tokenizer, interaction)
    return EncodedExample(
        interaction_id=interaction.id,
        student_ids=prompt,
        teacher_ids=prompt,
        token_ids=interaction.token_ids,
        weight=1.0,
        teacher_is_base=False,
        follow_teacher=False,
    )
