"""The loss against ten naive lines, and the laws it must keep."""

import math

import pytest
import torch

from updater.objectives.forward_kl import forward_kl, reach_weights


def random_logits(seed: int, tokens: int = 5, vocab: int = 11) -> torch.Tensor:
    return torch.randn(tokens, vocab, generator=torch.Generator().manual_seed(seed))


def test_loss_is_zero_when_the_hint_changes_nothing() -> None:
    """A teacher equal to the student gives no loss and no gradient."""
    logits = random_logits(0).requires_grad_()
    loss = forward_kl(torch.log_softmax(logits.detach(), -1), logits, torch.ones(5))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(0.0, abs=1e-6)
    assert logits.grad is not None
    assert logits.grad.abs().max() < 1e-6


def test_loss_equals_a_naive_loop() -> None:
    """The weighted mean over tokens of sum p_T (log p_T - log p_S)."""
    teacher, student = torch.log_softmax(random_logits(1), -1), random_logits(2)
    weights = torch.tensor([1.0, 0.5, 0.25, 0.25, 0.0])
    logs = torch.log_softmax(student, -1)
    total = 0.0
    for t in range(5):
        for v in range(11):
            p = math.exp(teacher[t, v])
            total += float(weights[t]) * p * float(teacher[t, v] - logs[t, v])
    assert forward_kl(teacher, student, weights).item() == pytest.approx(total / 2.0, rel=1e-5)


def test_first_token_and_the_stop_itself_count_in_full() -> None:
    """The token where the teacher would rather have stopped still teaches; the ones after it fade."""
    teacher = torch.tensor([-1.0, -1.0, -6.0, -1.0])
    student = torch.tensor([-1.0, -1.0, -1.0, -1.0])
    assert reach_weights(teacher, student).tolist() == pytest.approx([1.0, 1.0, 1.0, math.exp(-5)])


def test_weights_never_rise_again() -> None:
    """What lies past a point the teacher would not have reached stays unweighted, however likely it then becomes."""
    teacher, student = torch.tensor([-5.0, -0.1, -0.1]), torch.tensor([-1.0, -4.0, -4.0])
    assert reach_weights(teacher, student).tolist() == pytest.approx([1.0, math.exp(-4), math.exp(-4)])
