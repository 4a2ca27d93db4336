"""Steps of Muon are as long in every direction, and as long as AdamW's."""

from copy import deepcopy

import torch

from tools.training.muon import Muon, orthogonal


def test_singular_values_come_near_1():
    torch.manual_seed(1)
    for shape in ((12, 40), (40, 12), (8, 8)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape) * 7))
        assert values.max() < 1.25
        assert values.min() > 0.1


def test_the_first_step_is_a_fifth_of_the_rate_whatever_the_gradient():
    for size in (1e-6, 1e3):
        torch.manual_seed(2)
        weight = torch.zeros(16, 8, 3, 3, requires_grad=True)
        weight.grad = size * torch.randn(16, 8, 3, 3)
        Muon([weight], lr=0.1).step()
        length = float(weight.detach().square().mean().sqrt())
        assert 0.7 < length / 0.02 < 1.2
        assert float((weight.detach() * weight.grad).sum()) < 0


def test_a_state_that_was_taken_over_gives_the_same_steps():
    def step(optimiser: Muon, weight: torch.Tensor) -> None:
        weight.grad = torch.sin(weight.detach() * 5 + 1)
        optimiser.step()

    first = torch.linspace(-1, 1, 32).reshape(4, 8).requires_grad_()
    muon = Muon([first], lr=0.1)
    step(muon, first)
    second = first.detach().clone().requires_grad_()
    other = Muon([second], lr=0.1)
    other.load_state_dict(deepcopy(muon.state_dict()))
    for optimiser, weight in ((muon, first), (other, second)):
        step(optimiser, weight)
    assert torch.equal(first, second)
