"""Norms and sums as torch compiles them equal the operators that they stand for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.ops.norm import compiled, group_norm, rms_norm
from tests.helpers.compiling import compiling
from tests.helpers.extended import extended

LAYOUTS = (torch.channels_last, torch.contiguous_format)


def frames_of(layout: torch.memory_format) -> Tensor:
    """[2, 8, 3, 5], a part of a larger buffer."""
    generator = torch.Generator().manual_seed(3)
    whole = torch.randn(3, 8, 3, 5, generator=generator, dtype=torch.float64)
    return whole.contiguous(memory_format=layout)[1:]


def channels(seed: int) -> Tensor:
    return torch.randn(8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sum_is_made_in_place(layout: torch.memory_format) -> None:
    x, change, bias = frames_of(layout), frames_of(layout).flip(0), channels(1)
    expected = x + change + bias[:, None, None]
    with compiling():
        add = compiled.sum_or(lambda *_: pytest.fail("it was compiled"))
        assert add(x, change.contiguous(memory_format=layout), bias) is None
    assert_close(x, expected)


def test_a_sum_that_is_not_compiled_is_made_once() -> None:
    def broken(graph: object, inputs: object) -> object:
        raise RuntimeError("no such instruction")

    x, given = frames_of(torch.channels_last), []
    with compiling(broken):
        add = compiled.sum_or(lambda *parts: given.append(parts))
        add(x, x, channels(1))
    assert_close(x, frames_of(torch.channels_last))
    assert len(given) == 1


@pytest.mark.parametrize("dtype", [torch.float64, *extended(torch.bfloat16)])
def test_norms_are_those_of_the_operators(dtype: torch.dtype) -> None:
    x = frames_of(torch.channels_last).to(dtype)
    exact = torch.promote_types(dtype, torch.float32)
    weight, bias, added = (channels(seed).to(exact) for seed in (1, 2, 4))
    found, expected = torch.empty_like(x), torch.empty_like(x)
    tolerance = 1e-12 if dtype == torch.float64 else 0.04
    with compiling():
        pairs = (weight.view(2, 4), bias.view(2, 4))
        assert compiled.group_norm_silu(x, pairs, 1e-6, found, silu=True, added=added)
        group_norm.group_norm_silu(x.clone(), weight, bias, 2, 1e-6, expected, added=added)
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)
        assert compiled.rms_norm_silu(x, weight, found, silu=False)
    rms_norm.rms_norm_silu(x, weight, expected, silu=False)
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)
