import math

import pytest
import torch
from torch import Tensor

from engine.ops.kernels import quantize
from engine.ops.kernels.build import DTYPES
from engine.ops.linear import eight_bit
from engine.ops.linear.eight_bit import Fp8Product, Int8Product

GPU = torch.device("cuda", 0)
SHAPES = [(7, 64), (3, 40), (1, 8), (5, 2056)]  # the last: two packs, one thread in the second
E4M3 = torch.float8_e4m3fn


def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "find", lambda _: None)


def same_bits(one: Tensor, other: Tensor) -> bool:
    return torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@pytest.mark.usefixtures("_launched")
def test_every_value_of_half_precision_has_the_code_that_torch_gives_it():
    """All that are finite, NaN and infinite, for scales at which few quotients are exact."""
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(torch.float16).view(64, 1024)
    for scale in (1.0, 0.013, 700.0):
        found = eight_bit.rounded_e4m3(x, torch.tensor(scale))
        wanted = (x.float() / scale).clamp(-448, 448).to(E4M3)
        assert torch.equal(found.isnan(), x.isnan())
        assert same_bits(found[~x.isnan()], wanted[~x.isnan()])


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_source_rounds_as_the_reference_does(dtype, shape, monkeypatch):
    x = (torch.randn(shape) * torch.logspace(-4, 3, shape[0])[:, None]).to(dtype)
    x[:, 0] = 0
    scale = eight_bit.scale_e4m3(x)
    narrow, (codes, scales) = eight_bit.rounded_e4m3(x, scale), eight_bit.rounded_int8(x)
    without_kernels(monkeypatch)
    assert same_bits(narrow, eight_bit.rounded_e4m3(x, scale))
    wanted = eight_bit.rounded_int8(x)
    assert torch.equal(codes, wanted[0])
    assert torch.equal(scales, wanted[1])


@pytest.mark.usefixtures("_launched")
def test_rows_of_zeros_and_of_what_is_no_number():
    x = torch.zeros(4, 16)
    x[1, 5], x[2, 7] = torch.nan, -torch.inf
    x[3] = torch.linspace(-1, 1, 16)
    codes, scales = eight_bit.rounded_int8(x)
    assert scales[0] > 0
    assert not codes[0].any()
    assert scales[1:3].isnan().tolist() == [[True], [False]]
    assert (codes[3, 0], codes[3, -1]) == (-127, 127)


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("biased", [True, False])
def test_a_layer_gives_what_it_gives_without_kernels(dtype, biased, monkeypatch):
    """Whole buffers, and parts of larger ones whose other values must not change."""
    layer = Int8Product(64, 24, bias=biased)
    layer.take(torch.randn(24, 64))
    if layer.bias is not None:
        layer.bias.data.normal_()
    x, whole = torch.randn(40, 64).to(dtype), torch.full((42, 40), 7.0).to(dtype)
    out = whole[1:41, 8:32]
    layer.multiply(x, None, out)
    found = layer(x)
    without_kernels(monkeypatch)
    wanted = layer(x)
    tolerance = 2 * max(torch.finfo(dtype).eps, 1e-6)
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(out, wanted, rtol=tolerance, atol=tolerance)
    out.fill_(7.0)
    assert (whole == 7).all()


STORED = (E4M3, torch.float8_e5m2, torch.int8)


def scales_of(rows: int) -> list[Tensor | None]:
    """No scale, one for all, one for each row: also those at which values become small or large."""
    return [None, torch.tensor([0.013]), torch.logspace(-9, 4, rows)[:, None]]


def equal(found: Tensor, wanted: Tensor) -> bool:
    same = torch.isclose(found, wanted, rtol=0, atol=0, equal_nan=True)
    return bool((same & (found.signbit() == wanted.signbit()) | found.isnan()).all())


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", STORED)
def test_stored_codes_are_widened_as_by_torch(kind, dtype):
    """All 256 codes; the rows of the last shape have an odd number of them."""
    for shape in (*SHAPES, (7, 2056), (256, 3)):
        codes = torch.arange(shape[0] * shape[1]).to(torch.uint8).view(kind).view(shape)
        for scale in scales_of(shape[0]):
            out = torch.full((shape[0], shape[1] + 16), 7.0, dtype=dtype)
            found = quantize.find_for_codes(codes, out[:, 8:-8])
            assert found is not None
            found[0].widen(codes, out[:, 8:-8], found[1], scale)
            wanted = eight_bit.dequantise(codes, scale, 0, dtype, kernels=False)
            assert equal(out[:, 8:-8], wanted)
            assert (out[:, :8] == 7).all()
            assert (out[:, -8:] == 7).all()
            assert equal(eight_bit.dequantise(codes, scale, 0, dtype), wanted)


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_of_codes_are_multiplied_by_powers_of_two_as_by_torch(dtype):
    """All codes and all exponents, NaN too; rows of an odd number of blocks."""
    for shape in ((256, 64), (5, 2048 + 32), (3, 96)):
        codes = torch.arange(shape[0] * shape[1]).to(torch.uint8).view(E4M3).view(shape)
        blocks = shape[0], shape[1] // 32
        exponents = torch.arange(math.prod(blocks)).to(torch.uint8).view(blocks)
        found = eight_bit.dequantise(codes, exponents, 0, dtype)
        assert equal(found, eight_bit.dequantise(codes, exponents, 0, dtype, kernels=False))


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("group", [4, 16, 64, 256])
def test_rotated_codes_are_rotated_back_and_rounded_once(group, dtype):
    """More exactly than torch, which rounds before it multiplies by the scale."""
    for shape in ((5, 256), (2, 2048 + 256), (3, 768)):
        codes = torch.randint(-128, 128, shape, dtype=torch.int8)
        matrix = quantize.rotation(group, codes.device, torch.float64)
        exact = (codes.double().view(-1, group) @ matrix).view(shape)
        for scale in scales_of(shape[0])[:2]:
            found = eight_bit.dequantise(codes, scale, group, dtype)
            wanted = exact.float() if scale is None else exact.float() * scale
            assert torch.equal(found, wanted.to(dtype))
            theirs = eight_bit.dequantise(codes, scale, group, dtype, kernels=False)
            eps = torch.finfo(dtype).eps
            torch.testing.assert_close(
                found, theirs, rtol=eps, atol=eps * float(wanted.abs().max())
            )


@pytest.mark.usefixtures("_launched")
def test_rotations_that_a_warp_cannot_do_are_left_to_torch():
    codes = torch.zeros(2, 1024, dtype=torch.int8)
    half, single = torch.empty(2, 1024).half(), torch.empty(2, 1024)
    assert quantize.find_for_codes(codes, half, 256) is not None
    assert quantize.find_for_codes(codes, half, 1024) is None
    assert quantize.find_for_codes(codes, single, 256) is None
    assert quantize.find_for_codes(codes.view(E4M3), half, 256) is None


@pytest.mark.usefixtures("_launched")
def test_codes_that_begin_between_vectors_are_left_to_torch():
    held = torch.zeros(65, dtype=torch.int8)
    out = torch.empty(2, 32).half()
    assert quantize.find_for_codes(held[1:].view(2, 32), out) is None
    assert quantize.find_for_codes(held[:64].view(32, 2).t(), out) is None
    assert quantize.find_for_codes(held[:64].view(2, 32), out) is not None


@pytest.mark.gpu
@pytest.mark.parametrize("group", [4, 16, 64, 256])
def test_rotated_codes_are_rotated_back_on_a_gpu(group):
    codes = torch.randint(-128, 128, (77, 6912), dtype=torch.int8)
    exact = codes.float().view(-1, group) @ quantize.rotation(group, codes.device, torch.float32)
    found = eight_bit.dequantise(codes.to(GPU), None, group, torch.float16)
    assert torch.equal(found.cpu(), exact.view(codes.shape).half())


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", STORED)
def test_stored_codes_are_widened_as_by_torch_on_a_gpu(kind, dtype):
    codes = torch.arange(77 * 6912).to(torch.uint8).view(kind).view(77, 6912)
    powers = torch.arange(77 * 216).remainder(255).to(torch.uint8).view(77, 216)
    for scale in (*scales_of(77), *([powers] if kind == E4M3 else [])):
        there = None if scale is None else scale.to(GPU)
        found = eight_bit.dequantise(codes.to(GPU), there, 0, dtype)
        assert equal(found.cpu(), eight_bit.dequantise(codes, scale, 0, dtype))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1000, 2560), (77, 6912), (5, 32)])
def test_kernels_equal_the_reference_on_a_gpu(dtype, shape, monkeypatch):
    assert quantize.working(GPU, dtype)
    x = torch.randn(shape).to(GPU, dtype)
    scale = eight_bit.scale_e4m3(x)
    narrow, (codes, scales) = eight_bit.rounded_e4m3(x, scale), eight_bit.rounded_int8(x)
    layers = [kind(shape[1], 64, bias=True).to(GPU) for kind in (Fp8Product, Int8Product)]
    for layer in layers:
        layer.take(torch.randn(64, shape[1], device=GPU))
        layer.bias.data.normal_()
    can = torch.cuda.get_device_capability() >= (8, 9)
    found = [layer(x) for layer in layers[0 if can else 1 :]]
    without_kernels(monkeypatch)
    assert same_bits(narrow, eight_bit.rounded_e4m3(x, scale))
    wanted = eight_bit.rounded_int8(x)
    torch.testing.assert_close(
        scales, wanted[1], rtol=2e-7, atol=0
    )  # torch divides otherwise there
    apart = (codes.int() - wanted[0].int()).abs()
    assert int(apart.max()) <= 1
    assert float(apart.float().mean()) < 1e-4
    for layer, made in zip(layers[0 if can else 1 :], found, strict=True):
        torch.testing.assert_close(made, layer(x), rtol=2e-2, atol=2e-2)
