"""Both divergences against ten naive lines, and the laws they must keep."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from updater.objectives.forward_kl import forward_kl, reach_weights
from updater.objectives.reverse_kl import reverse_kl

Divergence = Callable[[Tensor, Tensor, Tensor], Tensor]

both = pytest.mark.parametrize("divergence", [forward_kl, reverse_kl])


def random_logits(seed: int, tokens: int = 5, vocab: int = 11) -> torch.Tensor:
    return torch.randn(tokens, vocab, generator=torch.Generator().manual_seed(seed))


@both
def test_a_student_that_equals_its_teacher_has_nothing_to_learn(divergence: Divergence) -> None:
    """No loss and no gradient: also what a hint that changes nothing gives."""
    logits = random_logits(0).requires_grad_()
    loss = divergence(torch.log_softmax(logits.detach(), -1), logits, torch.ones(5))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(0.0, abs=1e-6)
    assert logits.grad is not None
    assert logits.grad.abs().max() < 1e-6


@both
def test_loss_equals_a_naive_loop(divergence: Divergence) -> None:
    """The weighted mean over tokens of sum p (log p - log q): p is the teacher forward, the student in reverse."""
    teacher, logits = torch.log_softmax(random_logits(1), -1), random_logits(2)
    student = torch.log_softmax(logits, -1)
    weights = torch.tensor([1.0, 0.5, 0.25, 0.25, 0.0])
    p, q = (teacher, student) if divergence is forward_kl else (student, teacher)
    total = sum(float(weights[t]) * math.exp(p[t, v]) * float(p[t, v] - q[t, v]) for t in range(5) for v in range(11))
    assert divergence(teacher, logits, weights).item() == pytest.approx(total / 2.0, rel=1e-5)


def test_in_reverse_what_the_teacher_would_not_say_costs_more_than_what_the_student_leaves_out() -> None:
    """Of a teacher with two answers a student may keep one, but may not add a third."""
    teacher = torch.log(torch.tensor([[0.4995, 0.4995, 0.001]]))
    keeps_one = torch.log(torch.tensor([[0.998, 0.001, 0.001]]))
    adds_one = torch.log(torch.tensor([[0.25, 0.25, 0.5]]))
    assert reverse_kl(teacher, keeps_one, torch.ones(1)) < reverse_kl(teacher, adds_one, torch.ones(1)) / 3


def test_first_token_and_the_stop_itself_count_in_full() -> None:
    """The token where the teacher would rather have stopped still teaches; the ones after it fade."""
    teacher = torch.tensor([-1.0, -1.0, -6.0, -1.0])
    student = torch.tensor([-1.0, -1.0, -1.0, -1.0])
    assert reach_weights(teacher, student).tolist() == pytest.approx([1.0, 1.0, 1.0, math.exp(-5)])


def test_weights_never_rise_again() -> None:
    """What lies past a point the teacher would not have reached stays unweighted, however likely it then becomes."""
    teacher, student = torch.tensor([-5.0, -0.1, -0.1]), torch.tensor([-1.0, -4.0, -4.0])
    assert reach_weights(teacher, student).tolist() == pytest.approx([1.0, math.exp(-4), math.exp(-4)])
