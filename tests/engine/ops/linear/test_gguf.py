from itertools import product

import gguf
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ops.kernels.block_formats import BLOCKS
from engine.ops.linear import gguf as ours
from engine.ops.linear.gguf import GgufLinear, dequantise
from tests.helpers.model_files import random_blocks


@pytest.mark.parametrize("kind", BLOCKS)
@settings(max_examples=10, deadline=None)
@given(count=st.integers(0, 9), seed=st.integers(0, 2**31))
def test_values_are_those_of_the_gguf_package(kind: str, count: int, seed: int) -> None:
    block = BLOCKS[kind]
    assert (block.values, block.bytes) == GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    raw = random_blocks(kind, count, seed)
    found = dequantise(raw, kind, (count, block.values))
    if count:
        theirs = gguf.dequantize(raw.numpy(), GGMLQuantizationType[kind])
        assert np.array_equal(found.numpy(), theirs)
    assert found.shape == (count, block.values)


def test_some_at_a_time_give_the_same_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, block in BLOCKS.items():
        raw, shape = random_blocks(kind, 11), (11 * block.values,)
        whole = dequantise(raw, kind, shape)
        with monkeypatch.context() as patch:
            patch.setattr(ours, "_CACHED_VALUES", 3 * block.values)
            assert torch.equal(dequantise(raw, kind, shape), whole)


def test_values_are_rounded_once() -> None:
    raw = random_blocks("Q4_K", 4)
    exact = dequantise(raw, "Q4_K", (4, 256))
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert torch.equal(dequantise(raw, "Q4_K", (4, 256), dtype), exact.to(dtype))


def test_a_layer_multiplies_with_its_values() -> None:
    for kind, bias in product(("Q8_0", "Q4_K", "Q5_K", "Q6_K"), (True, False)):
        layer, block = GgufLinear(512, 24, kind, bias=bias), BLOCKS[kind]
        assert layer.weight.shape == (24, 512 // block.values * block.bytes)
        raw = random_blocks(kind, 24 * 512 // block.values)
        layer.weight.data = raw.view(layer.weight.shape)
        if layer.bias is not None:
            layer.bias.data.normal_()
        x = torch.randn(3, 5, 512, dtype=torch.float64)
        weight = dequantise(layer.weight, kind, (24, 512), torch.float64)
        wanted = F.linear(x, weight, None if layer.bias is None else layer.bias.double())
        assert torch.equal(layer.dense_weight(torch.float64), weight)
        torch.testing.assert_close(layer(x), wanted)
        assert layer(x.half()).dtype == torch.float16
        assert set(layer.state_dict()) == ({"weight", "bias"} if bias else {"weight"})
        assert not any(parameter.requires_grad for parameter in layer.parameters())


def test_rows_may_be_cut_elsewhere_than_in_the_model() -> None:
    """Files keep rows of 64 in rows of 256; the shape of the model stands in their metadata."""
    layer = GgufLinear(64, 24, "Q4_K", bias=False)
    assert layer.weight.shape == (6, 144)
    layer.weight.data = random_blocks("Q4_K", 6).view(2, 3 * 144)
    wanted = dequantise(layer.weight, "Q4_K", (6, 256)).view(24, 64)
    assert torch.equal(layer.dense_weight(torch.float32), wanted)
