"""Full-vocabulary forward KL from a frozen teacher to the student, on logged tokens.

Source: SDPO (arXiv 2601.20802) and SDFT (2601.19897), with these departures: the teacher is frozen for the whole
update (2607.01763 shows moving teachers collapse), the tokens are the ones that were served (no fresh rollouts,
AsyncOPD 2606.24143: the forward form tolerates that), and token t is weighted by how likely the teacher would have
come that far, min over prefixes of prod pi_T / pi_S, at most 1: past the point where the teacher would have stopped
its targets mean nothing.
"""

import torch
from torch import Tensor


def reach_weights(teacher: Tensor, student: Tensor) -> Tensor:
    """Weights (T,) in (0, 1] from the (T,) logprobs that teacher and student gave the logged tokens.

    Token t is weighted by the tokens before it, so the first weighs 1 and the token where the teacher would have
    stopped still teaches the stop.
    """
    log_ratio = torch.cumsum(teacher - student, dim=0)  # (T,)
    before = torch.cat([log_ratio.new_zeros(1), log_ratio[:-1]])  # (T,)
    return torch.cummin(before.clamp(max=0.0), dim=0).values.exp()


def forward_kl(teacher_logprobs: Tensor, student_logits: Tensor, weights: Tensor) -> Tensor:
    """Scalar nats: the weighted mean over tokens of KL(teacher || student); the denominator is the sum of weights.

    `teacher_logprobs` (T, V) normalised, `student_logits` (T, V) raw, `weights` (T,) non-negative, some positive.
    """
    student = torch.log_softmax(student_logits.float(), dim=-1)  # (T, V)
    teacher = teacher_logprobs.float()
    divergence = (teacher.exp() * (teacher - student)).sum(dim=-1)  # (T,)
    return (divergence * weights).sum() / weights.sum()
