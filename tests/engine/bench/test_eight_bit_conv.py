"""Convolutions in 8 bits against float64 of the same rounded values, and what they replace."""

from __future__ import annotations

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.bench import eight_bit_conv
from engine.bench.eight_bit_conv import EightBit, EightBitConv, convolve_in_eight_bits
from engine.bench.memory import peak_bytes
from engine.ops.conv.causal_conv import CausalConv3d
from engine.ops.linear.formats import working
from tests.helpers.extended import rest_extended
from tests.helpers.tensors import relative_rms

HOW = [EightBit(*pair) for pair in product(("int8", "fp8"), ("tensor", "row"))]
LARGEST = {"int8": 127, "fp8": 448}
KERNELS: list[tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]]] = [
    ((3, 3, 3), (1, 1, 1), (0, 1, 1)),
    ((3, 3, 3), (2, 2, 2), (0, 0, 0)),
    ((3, 1, 1), (1, 1, 1), (0, 0, 0)),
    ((1, 1, 1), (1, 1, 1), (0, 0, 0)),
]
# Products in fp8 take long where the processor imitates them.
ALL = [(how, *kernel) for how, kernel in product(HOW, KERNELS)]
USUAL = [case for case in ALL if case[0].product == "int8" or case[1:] == KERNELS[0]]


def layer(
    kernel: tuple[int, ...], outer: int = 10, inner: int = 12
) -> tuple[Tensor, Tensor, Tensor]:
    """A weight with channels of different sizes, a bias, and a clip to convolve."""
    generator = torch.Generator().manual_seed(3)
    sizes = torch.logspace(-3, 2, outer).view(-1, 1, 1, 1, 1)
    weight = torch.randn(outer, inner, *kernel, generator=generator) * sizes
    bias = torch.randn(outer, generator=generator)
    return weight, bias, 3 * torch.randn(inner, 5, 9, 8, generator=generator)


def rounded(values: Tensor, scale: Tensor, how: EightBit) -> Tensor:
    """Values as they are multiplied, float64."""
    units = values.double() / scale
    if how.product == "int8":
        return units.round() * scale
    return units.float().to(torch.float8_e4m3fn).double() * scale


def exact(
    conv: EightBitConv, weight: Tensor, clip: Tensor, stride: tuple[int, ...], how: EightBit
) -> Tensor:
    """The convolution [C', T', H', W'] of the rounded values in float64, without a bias."""
    windows = clip
    for axis, (size, step) in enumerate(zip(weight.shape[2:], stride, strict=True), 1):
        windows = windows.unfold(axis, size, step)
    seen = windows.movedim(0, 3)  # [T', H', W', I, K, kh, kw]
    largest = clip.abs().max() if how.scales == "tensor" else seen.abs().amax((3, 4, 5, 6), True)
    values = rounded(seen, largest.double() / LARGEST[how.product], how)
    return torch.einsum("thwiabc,oiabc->othw", values, conv.rounded_weight)


@pytest.mark.parametrize(
    ("how", "kernel", "stride", "padding"), rest_extended(ALL, *USUAL), ids=str
)
def test_it_equals_float64_of_the_same_rounded_values(
    how: EightBit,
    kernel: tuple[int, int, int],
    stride: tuple[int, int, int],
    padding: tuple[int, int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(eight_bit_conv, "PIECE_BYTES", 3000)  # a few lines at a time
    weight, bias, clip = layer(kernel)
    conv = EightBitConv(weight, bias, stride, padding, how)
    found = conv.apply(clip)
    padded = F.pad(clip, [side for each in reversed(padding) for side in (each, each)])
    wanted = exact(conv, weight, padded, stride, how) + bias.double()[:, None, None, None]
    assert found.shape == wanted.shape
    for channel in range(len(weight)):
        assert relative_rms(found[channel], wanted[channel]) < 2e-5
    plain = F.conv3d(clip[None], weight, bias, stride, padding)[0]
    error = relative_rms(found, plain)
    assert 1e-3 < error < (0.03 if how.product == "int8" else 0.06)


@pytest.mark.parametrize("how", HOW, ids=lambda how: how.name)
def test_an_imitated_product_gives_the_same(how: EightBit) -> None:
    weight, bias, clip = layer((3, 3, 3))
    imitated = EightBit(how.product, how.scales, imitated=True)
    found, wanted = (
        EightBitConv(weight, bias, (1, 1, 1), (0, 1, 1), each).apply(clip)
        for each in (imitated, how)
    )
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))


def test_rows_are_made_for_some_lines_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, _, _ = layer((3, 3, 3), outer=16, inner=16)
    clip = torch.randn(16, 4, 64, 64)
    conv = EightBitConv(weight, None, (1, 1, 1), (0, 1, 1), HOW[0])
    whole = 27 * clip.numel()  # bytes of all rows
    monkeypatch.setattr(eight_bit_conv, "PIECE_BYTES", 64 * 27 * 16)
    peak = peak_bytes(lambda: conv.apply(clip), "cpu")
    assert peak < 4 * clip.nbytes + 8 * 64 * 27 * 16 < whole


class Coder(nn.Module):
    """Three convolutions as in an encoder, a smaller one of single frames between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = CausalConv3d(3, 16, 3, padding=(0, 1, 1))
        self.inside = CausalConv3d(16, 16, 3, padding=(0, 1, 1))
        self.single = nn.Conv2d(16, 16, 3, padding=1)
        self.last = CausalConv3d(16, 3, 3, padding=(0, 1, 1))

    def forward(self, frames: Tensor) -> Tensor:
        inside = self.inside(self.first(frames))
        single = self.single(inside[0].movedim(0, 1)).movedim(0, 1)[None]
        return torch.as_tensor(self.last(single))


@torch.inference_mode()
def test_all_convolutions_but_the_first_and_the_last_are_replaced() -> None:
    torch.manual_seed(1)
    coder, frames = Coder(), torch.rand(1, 3, 4, 12, 10)
    wanted = coder(frames)
    first, last = coder.first._conv_forward, coder.last._conv_forward
    assert convolve_in_eight_bits(coder, HOW[1]) == 2
    assert coder.first._conv_forward == first
    assert coder.last._conv_forward == last
    found = coder(frames)
    assert found.shape == wanted.shape
    assert 1e-3 < relative_rms(found, wanted) < 0.03


@pytest.mark.gpu
@pytest.mark.parametrize("how", HOW, ids=lambda how: how.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_gpu_gives_the_same(how: EightBit, dtype: torch.dtype) -> None:
    if how.product not in working("cuda"):
        pytest.skip(f"this GPU multiplies no {how.product} matrices")
    weight, bias, clip = layer((3, 3, 3), outer=32, inner=16)
    found, wanted = (
        EightBitConv(weight.to(device), bias.to(device), (1, 1, 1), (0, 1, 1), how)
        .apply(clip.to(device, dtype))
        .cpu()
        for device in ("cuda", "cpu")
    )
    assert found.dtype == dtype
    for channel in range(len(weight)):
        assert relative_rms(found[channel], wanted[channel]) < 5e-3
