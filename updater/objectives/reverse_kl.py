"""Full-vocabulary reverse KL from the student to a frozen teacher, on tokens that the student itself sampled.

Source: on-policy distillation (GKD, arXiv 2306.13649; MiniLLM, 2306.08543). What was learnt from given answers is only
right on the given prefixes; this form punishes what the student says and the teacher would not, on the prefixes that
the student really reaches. The gradient is that of the divergence at each position, without the policy-gradient term
for the positions after it, as in GKD.
"""

import torch
from torch import Tensor


def reverse_kl(teacher_logprobs: Tensor, student_logits: Tensor, weights: Tensor) -> Tensor:
    """Scalar nats: the weighted mean over tokens of KL(student || teacher); the denominator is the sum of weights.

    `teacher_logprobs` (T, V) normalised, `student_logits` (T, V) raw, `weights` (T,) non-negative, some positive.
    """
    student = torch.log_softmax(student_logits.float(), dim=-1)  # (T, V)
    divergence = (student.exp() * (student - teacher_logprobs.float())).sum(dim=-1)  # (T,)
    return (divergence * weights).sum() / weights.sum()
