from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from engine.ops.linear.eight_bit import Int8Product
from tests.helpers.tensors import relative_rms


def layer_of(weight: torch.Tensor, *, bias: bool = False) -> Int8Product:
    layer = Int8Product(weight.shape[1], weight.shape[0], bias=bias)
    layer.take(weight)
    if layer.bias is not None:
        layer.bias.data.normal_()
    return layer


def test_sums_of_whole_values_are_exact() -> None:
    weight = torch.randint(-127, 128, (24, 64)).float()
    x = torch.randint(-127, 128, (40, 64)).float()
    weight[:, 0], x[:, 0] = 127, -127  # so that every scale is one
    wanted = F.linear(x.double(), weight.double())
    assert torch.equal(layer_of(weight)(x).double(), wanted)


@pytest.mark.parametrize("rows", [1, 16, 17, 33, 2049])
def test_any_number_of_tokens(rows: int) -> None:
    weight = torch.randn(24, 64)
    x = torch.randn(rows, 64)
    found = layer_of(weight)(x)
    assert found.shape == (rows, 24)
    assert relative_rms(found, F.linear(x.double(), weight.double())) < 0.03


def test_every_row_and_every_token_has_its_own_scale() -> None:
    sizes = torch.logspace(-6, 6, 24)[:, None]
    weight = torch.randn(24, 64) * sizes
    x = torch.randn(40, 64) * torch.logspace(-5, 5, 40)[:, None]
    found, wanted = layer_of(weight)(x), F.linear(x.double(), weight.double())
    for row in range(40):
        assert relative_rms(found[row] / sizes[:, 0], wanted[row] / sizes[:, 0]) < 0.03


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_what_comes_out_has_the_dtype_of_what_goes_in(dtype: torch.dtype) -> None:
    layer = layer_of(torch.randn(24, 64), bias=True)
    x = torch.randn(2, 5, 64).to(dtype)
    found = layer(x)
    assert found.dtype == dtype
    assert found.shape == (2, 5, 24)
    wanted = F.linear(x.double(), layer.dense_weight(torch.float64), layer.bias.double())
    assert relative_rms(found, wanted) < 0.02


def test_zeros_stay_zeros() -> None:
    layer = layer_of(torch.zeros(24, 64))
    assert torch.equal(layer.dense_weight(torch.float32), torch.zeros(24, 64))
    assert torch.equal(layer(torch.zeros(2, 64)), torch.zeros(2, 24))


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 58, 3000])
def test_a_gpu_gives_the_same(rows: int) -> None:
    layer = layer_of(torch.randn(256, 512), bias=True)
    x = torch.randn(rows, 512)
    wanted = layer(x)
    torch.testing.assert_close(layer.cuda()(x.cuda()).cpu(), wanted, rtol=1e-4, atol=1e-4)
