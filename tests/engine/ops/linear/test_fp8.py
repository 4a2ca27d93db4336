from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from engine.ops.linear.eight_bit import FORMATS, Fp8Linear, Fp8Product
from tests.helpers.tensors import relative_rms


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_stored_values_are_widened_exactly(kind: str, dtype: torch.dtype) -> None:
    layer = Fp8Linear(24, 10, kind, bias=True)
    layer.weight.data = torch.randn(10, 24).to(FORMATS[kind])
    assert layer.bias is not None
    layer.bias.data.normal_()
    x = torch.randn(2, 3, 24).to(dtype)
    wanted = F.linear(x, layer.weight.to(dtype), layer.bias.to(dtype))
    assert torch.equal(layer(x), wanted)
    assert layer(x).dtype == dtype
    assert layer.weight.dtype.itemsize == 1
    assert torch.equal(layer.dense_weight(torch.float64).float(), layer.weight.float())


def test_a_product_takes_the_values_of_a_file_as_they_are() -> None:
    stored = (torch.randn(16, 32) * 3).to(torch.float8_e4m3fn)
    layer = Fp8Product(32, 16, bias=False)
    layer.take(stored)
    assert torch.equal(layer.dense_weight(torch.float32), stored.float())


@pytest.mark.parametrize("size", [1e-20, 1e-3, 1.0, 1e4, 1e30])
def test_a_product_is_as_near_as_three_bits_of_mantissa_allow(size: float) -> None:
    weight, x = torch.randn(48, 64) * size, torch.randn(70, 64)
    layer = Fp8Product(64, 48, bias=False)
    layer.take(weight)
    wanted = F.linear(x.double(), weight.double())
    assert 0.01 < relative_rms(layer(x), wanted) < 0.05


def test_zeros_and_outliers_stay_finite() -> None:
    layer = Fp8Product(32, 16, bias=False)
    layer.take(torch.randn(16, 32))
    assert torch.equal(layer(torch.zeros(3, 32)), torch.zeros(3, 16))
    x = torch.randn(5, 32)
    x[2, 7] = -6e4
    assert layer(x).isfinite().all()
    x[2, 7] = torch.nan
    assert layer(x)[2].isnan().all()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_gpu_multiplies_the_same_values(dtype: torch.dtype) -> None:
    if torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("this card has no fp8")
    layer = Fp8Product(512, 256, bias=True)
    layer.take(torch.randn(256, 512))
    layer.bias.data.normal_()
    x = torch.randn(3000, 512).to(dtype)
    wanted = layer(x.float())
    assert relative_rms(layer.cuda()(x.cuda()).cpu(), wanted) < 5e-3
