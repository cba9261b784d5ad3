"""The loss on the student's own answers against ten naive lines."""

import math

import pytest
import torch

from updater.objectives.reverse_kl import reverse_kl


def random_logits(seed: int, tokens: int = 5, vocab: int = 11) -> torch.Tensor:
    return torch.randn(tokens, vocab, generator=torch.Generator().manual_seed(seed))


def test_a_student_that_equals_its_teacher_has_nothing_to_learn() -> None:
    logits = random_logits(0).requires_grad_()
    loss = reverse_kl(torch.log_softmax(logits.detach(), -1), logits, torch.ones(5))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(0.0, abs=1e-6)
    assert logits.grad is not None
    assert logits.grad.abs().max() < 1e-6


def test_loss_equals_a_naive_loop() -> None:
    """The weighted mean over tokens of sum p_S (log p_S - log p_T)."""
    teacher, student = torch.log_softmax(random_logits(1), -1), random_logits(2)
    weights = torch.tensor([1.0, 0.5, 0.25, 0.25, 0.0])
    logs = torch.log_softmax(student, -1)
    total = 0.0
    for t in range(5):
        for v in range(11):
            p = math.exp(logs[t, v])
            total += float(weights[t]) * p * float(logs[t, v] - teacher[t, v])
    assert reverse_kl(teacher, student, weights).item() == pytest.approx(total / 2.0, rel=1e-5)


def test_what_the_teacher_would_not_say_costs_more_than_what_the_student_leaves_out() -> None:
    """Of a teacher with two answers a student may keep one, but may not add a third."""
    teacher = torch.log(torch.tensor([[0.4995, 0.4995, 0.001]]))
    keeps_one = torch.log(torch.tensor([[0.998, 0.001, 0.001]]))
    adds_one = torch.log(torch.tensor([[0.25, 0.25, 0.5]]))
    assert reverse_kl(teacher, keeps_one, torch.ones(1)) < reverse_kl(teacher, adds_one, torch.ones(1)) / 3
