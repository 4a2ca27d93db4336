import math

import pytest
import torch
from torch import Tensor

from engine.ops.kernels import blocks, build
from engine.ops.kernels.block_formats import BLOCKS
from engine.ops.kernels.build import DTYPES
from engine.ops.linear.gguf import GgufLinear, dequantise
from tests.helpers.extended import extended
from tests.helpers.model_files import SCALES, random_blocks

GPU = torch.device("cuda", 0)
HALVES = DTYPES[1:]
LARGEST, SMALLEST = 65504.0, 2.0**-24
EXTREMES = (0.0, -0.0, LARGEST, -LARGEST, SMALLEST, -SMALLEST, 2.0**-15, 2.0**-14, 1.0)


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether all bits are equal, signs of zeros included."""
    kind = torch.int32 if one.dtype == torch.float32 else torch.int16
    return torch.equal(one.view(kind), other.view(kind))


def wanted_of(raw: Tensor, kind: str, dtype: torch.dtype) -> Tensor:
    return found_of(raw, kind, dtype, kernels=False)


def found_of(raw: Tensor, kind: str, dtype: torch.dtype, *, kernels: bool = True) -> Tensor:
    shape = raw.numel() // BLOCKS[kind].bytes, BLOCKS[kind].values
    return dequantise(raw, kind, shape, dtype, kernels=kernels)


def extreme_blocks(kind: str) -> Tensor:
    """Blocks of any bits with every pair of extreme scales."""
    pairs = torch.cartesian_prod(*2 * [torch.tensor(EXTREMES, dtype=torch.float16)])
    raw = random_blocks(kind, len(pairs))
    for which, place in enumerate(SCALES.get(kind, (0, 2))):
        raw[:, place : place + 2] = pairs[:, which : which + 1].contiguous().view(torch.uint8)
    return raw


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", BLOCKS)
def test_the_source_gives_the_bits_of_the_reference(kind, dtype):
    for count in (1, 3, 70):
        raw = random_blocks(kind, count, count)
        assert same_bits(found_of(raw, kind, dtype), wanted_of(raw, kind, dtype))
    raw = extreme_blocks(kind)
    assert same_bits(found_of(raw, kind, dtype), wanted_of(raw, kind, dtype))


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("kind", BLOCKS)
def test_every_code_has_its_value(kind):
    """Blocks of one byte throughout, but for the scales: all 256 of them."""
    raw = torch.arange(256).to(torch.uint8)[:, None].repeat(1, BLOCKS[kind].bytes)
    for place in SCALES.get(kind, (0, 2)):
        scales = torch.linspace(-3, 3, 256, dtype=torch.float16)[:, None]
        raw[:, place : place + 2] = scales.view(torch.uint8)
    for dtype in HALVES:
        assert same_bits(found_of(raw, kind, dtype), wanted_of(raw, kind, dtype))


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_K", "Q6_K"])
def test_scales_that_are_no_numbers_make_the_same_values_none(kind):
    raw = random_blocks(kind, 4)
    for place in SCALES.get(kind, (0, 2)):
        scales = torch.tensor([[torch.inf], [-torch.inf], [torch.nan], [1.0]], dtype=torch.float16)
        raw[:, place : place + 2] = scales.view(torch.uint8)
    for dtype in HALVES:
        found, wanted = found_of(raw, kind, dtype), wanted_of(raw, kind, dtype)
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("kind", [*extended("Q4_1", "Q5_0", "Q5_K"), "Q5_1", "Q4_K", "Q6_K"])
@pytest.mark.parametrize("begin", [2, 4, 8])
def test_bytes_may_begin_anywhere_and_nothing_around_the_values_changes(kind, begin):
    block, count = BLOCKS[kind], 9
    held = torch.zeros(begin + count * block.bytes, dtype=torch.uint8)
    assert math.gcd(16, held.data_ptr()) == 16
    raw = held[begin:]
    raw.copy_(random_blocks(kind, count).view(-1))
    for dtype in HALVES:
        whole = torch.full((count * block.values + 16,), 7, dtype=dtype)
        found = blocks.find(raw, whole[8:-8])
        assert found is not None
        found.unpack(kind, raw, whole[8:-8])
        assert same_bits(whole[8:-8], wanted_of(raw.clone(), kind, dtype).view(-1))
        assert (whole[:8] == 7).all()
        assert (whole[-8:] == 7).all()


@pytest.mark.usefixtures("_launched")
def test_one_block_of_threads_takes_all_units_if_there_are_no_more(monkeypatch):
    monkeypatch.setattr(blocks, "_MOST_BLOCKS", 1)
    for kind in BLOCKS:
        raw = random_blocks(kind, 300)
        assert same_bits(found_of(raw, kind, HALVES[0]), wanted_of(raw, kind, HALVES[0]))


@pytest.mark.usefixtures("_launched")
def test_the_source_reaches_beyond_four_billion_values(tmp_path, monkeypatch):
    """The last three blocks of 2^32 values, the kernel's count of units begins with them."""
    kind, count, last = "Q4_K", 2**24 + 3, 3
    first = "(unsigned long long)blockIdx.x * THREADS + threadIdx.x"
    text = build.source("blocks")
    assert text.count(first) == 1
    begun = text.replace(first, f"{(count - last) * 16}ULL + {first}")
    monkeypatch.setattr(build, "source", lambda _: begun)
    monkeypatch.setattr(blocks, "_MOST_BLOCKS", 1)
    raw = torch.from_file(str(tmp_path / "raw"), shared=True, size=count * 144, dtype=torch.uint8)
    out = torch.from_file(str(tmp_path / "out"), shared=True, size=count * 256, dtype=HALVES[0])
    some = random_blocks(kind, last)
    raw[-last * 144 :] = some.view(-1)
    found = blocks.find(raw, out)
    assert found is not None
    found.unpack(kind, raw, out)
    assert same_bits(out[-last * 256 :], wanted_of(some, kind, HALVES[0]).view(-1))


@pytest.mark.usefixtures("_launched")
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_K"])
def test_a_layer_gives_what_it_gives_without_kernels(kind):
    layer = GgufLinear(512, 24, kind, bias=True)
    layer.weight.data = random_blocks(kind, 24 * 512 // BLOCKS[kind].values).view(24, -1)
    layer.bias.data.normal_()
    x = torch.randn(3, 512).bfloat16()
    found = layer(x)
    layer.kernels = False
    assert torch.equal(found, layer(x))


def test_what_does_not_fit_is_left_to_the_reference(monkeypatch):
    monkeypatch.setattr(build, "is_gpu", lambda device: True)
    monkeypatch.setattr(blocks.KERNELS, "load", lambda *_: "kernels")
    raw, out = torch.zeros(288, dtype=torch.uint8), torch.zeros(512).half()
    assert blocks.find(raw, out) == "kernels"
    assert blocks.find(raw, out.double()) is None
    assert blocks.find(raw, out[1:]) is None
    assert blocks.find(raw[1:], out) is None
    assert blocks.find(raw[::2], out) is None
    assert blocks.find(raw, out[:0]) is None


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", BLOCKS)
def test_kernels_equal_the_reference_on_a_gpu(kind, dtype):
    assert blocks.working(GPU, dtype)
    for raw in (random_blocks(kind, 5000), extreme_blocks(kind)):
        found = found_of(raw.to(GPU), kind, dtype)
        assert blocks.find(raw.to(GPU), found) is not None
        assert same_bits(found.cpu(), wanted_of(raw, kind, dtype))
