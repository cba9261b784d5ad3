"""Cases to examples in token ids: which objective each takes, what is replayed beside them, what is left out and why.

Stored and sampled token ids only, never re-tokenised text (but for corrections, which nobody sampled).
"""

from collections.abc import Mapping, Sequence

from memory.states import Method
from memory.tokens import Tokenizer
from updater.hints import BASE
from updater.objectives.correction import encode_correction
from updater.objectives.hindsight import encode_hindsight, encode_told_answer
from updater.objectives.replay import encode_replay
from updater.plan import Case, Protected, choose_replays
from updater.roles import Roles
from updater.targets import ReadyTarget
from updater.training import EncodedExample

REPLAY_ROUNDS = 2
"""Distinct replays per place in a pass, so that two passes need not see the same ones."""


def encode_targets(
    tokenizer: Tokenizer,
    targets: Sequence[ReadyTarget],
    told_answers: Mapping[str, Sequence[tuple[int, ...]]],
    roles: Roles,
) -> tuple[EncodedExample, ...]:
    """`told_answers`: by interaction id, the frozen teacher's own answers when told."""
    examples: list[EncodedExample] = []
    for ready in targets:
        for case in ready.target.train:
            examples += _encode_case(tokenizer, ready, case, told_answers.get(case.interaction.id, ()), roles)
    return tuple(examples)


def encode_replays(
    tokenizer: Tokenizer, protected: Sequence[Protected], *, num_examples: int, replay_ratio: float, roles: Roles
) -> tuple[EncodedExample, ...]:
    wanted = round(num_examples * replay_ratio * REPLAY_ROUNDS)
    replayed = choose_replays(protected, wanted=wanted) if replay_ratio else []
    roles.note("replayed", [row.id for row in replayed], "replayed so that its kind stays as it is", weight=1.0)
    for cluster in protected:
        roles.note_others("gate", [row.id for row in cluster.gate], f"asked by the gate for {cluster.label!r}")
        left = [row.id for row in cluster.replay]
        roles.note_others("left_out", left, "its kind is protected, and enough of it is replayed")
    return tuple(encode_replay(tokenizer, row) for row in replayed)


def _encode_case(
    tokenizer: Tokenizer, ready: ReadyTarget, case: Case, told_answers: Sequence[tuple[int, ...]], roles: Roles
) -> list[EncodedExample]:
    example, interaction = case.example, case.interaction
    if example.method is Method.CORRECTION and example.correction:
        roles.note("trained", [interaction.id], "distilled from the user's correction", weight=example.weight)
        return [encode_correction(tokenizer, interaction, example.correction, example.weight)]
    if ready.hint is None:
        roles.note("left_out", [interaction.id], "its cluster is taught by corrections only")
        return []
    if example.principal in ready.hint.dissenting:
        reason = "its user's own words do not ask for what the cluster's hint brings"
        roles.note("left_out", [interaction.id], reason)
        return []
    roles.note("trained", [interaction.id], f"distilled from the hint {ready.hint.text!r}", weight=example.weight)
    logged = encode_hindsight(
        tokenizer,
        interaction,
        ready.hint.text,
        weight=example.weight,
        teacher_is_base=ready.hint.model == BASE,
    )
    return [logged, *(encode_told_answer(logged, answer) for answer in told_answers)]
