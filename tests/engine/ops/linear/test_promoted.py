"""Products by the kernel of convolutions: its source on the processor, against float64."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.ops.kernels import build
from engine.ops.kernels.conv import ConvKernel
from engine.ops.kernels.conv_tiles import Program, Taps, tile_for
from engine.ops.linear import promoted
from engine.ops.linear.matmul import product
from tests.helpers.kernels import HostModule
from tests.helpers.program import compiled_folder

TURING = "-D__CUDA_ARCH__=750"


@pytest.fixture
def folder() -> Path:
    return compiled_folder()


def kernel_of(weight: Tensor, folder: Path) -> ConvKernel:
    outer, inner = weight.shape
    program = Program(taps=Taps(outer, inner, 1, 1, 1), tile=tile_for(outer))
    module = HostModule(folder, build.source("conv"), (*program.options(), TURING))
    return ConvKernel(module, program)


def multiplied(
    x: Tensor, weight: Tensor, bias: Tensor | None, share: float, folder: Path
) -> Tensor:
    out = torch.full((len(x), len(weight)), torch.nan, dtype=torch.float16)
    work = promoted._work(x, bias, out, share)
    assert work.store == 8
    promoted._convolve(kernel_of(weight, folder), weight, work, share)
    return out


def error_of(found: Tensor, truth: Tensor) -> float:
    return float((found.double() - truth).square().mean().sqrt() / truth.square().mean().sqrt())


@pytest.mark.programs("g++")
@pytest.mark.parametrize(("inner", "outer"), [(512, 128), (96, 72)])
def test_the_source_multiplies_tokens(inner: int, outer: int, folder: Path) -> None:
    """Whole tiles and others, rows of a larger buffer, with a bias and scaled down."""
    random = torch.Generator().manual_seed(3)
    whole = torch.randn(64, inner + 8, generator=random).half()
    x, weight = whole[:, 8:], torch.randn(outer, inner, generator=random).half() / inner**0.5
    for bias, share in ((None, 1.0), (torch.randn(outer, generator=random).half(), 2.0**-6)):
        truth = x.double() @ weight.double().t()
        truth = (truth if bias is None else truth + bias.double()) * share
        error = error_of(multiplied(x, weight, bias, share, folder), truth)
        usual = torch.empty(64, outer, dtype=torch.float16)
        rounded = error_of(product(x, weight, bias, usual, share=share), truth)
        assert rounded < error < 2e-3, "four times the rounding of the result"


@pytest.mark.programs("g++")
def test_sums_that_exceed_float16_fit_where_they_are_scaled(folder: Path) -> None:
    x, weight = torch.full((16, 64), 60.0).half(), torch.full((64, 64), 60.0).half()
    assert not multiplied(x, weight, None, 1.0, folder).isfinite().all()
    found = multiplied(x, weight, None, 2.0**-6, folder)
    assert torch.equal(found, torch.full((16, 64), 3600.0).half())
