import pytest
import torch
import torch.nn.functional as F

from engine.ops.kernels.quantize import rotation
from engine.ops.linear.eight_bit import (
    FORMATS,
    EightBitLinear,
    Fp8Product,
    Int8Product,
    dequantise,
)
from tests.helpers.model_files import hadamard
from tests.helpers.tensors import relative_rms

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def int8(weight: torch.Tensor, *, bias: bool = False) -> Int8Product:
    layer = Int8Product(weight.shape[1], weight.shape[0], bias=bias)
    layer.take(weight)
    if layer.bias is not None:
        layer.bias.data.normal_()
    return layer


def test_stored_fp8_values_are_widened_exactly() -> None:
    for kind, stored in FORMATS.items():
        for dtype in DTYPES:
            layer = EightBitLinear(24, 10, kind, bias=True)
            layer.weight.data = torch.randn(10, 24).mul(9).to(stored)
            layer.bias.data.normal_()
            x = torch.randn(2, 3, 24).to(dtype)
            wanted = F.linear(x, layer.weight.to(dtype), layer.bias.to(dtype))
            assert torch.equal(layer(x), wanted)
            assert layer(x).dtype == dtype
            assert layer.weight.dtype.itemsize == 1
            assert torch.equal(layer.dense_weight(torch.float64).float(), layer.weight.float())


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("group", [0, 4, 16, 256])
def test_scaled_values_are_those_of_float64(kind: str, group: int) -> None:
    """Rounded once to the compute dtype, twice where they were rotated."""
    stored = torch.randn(6, 512).mul(40).to(FORMATS[kind])
    exact = stored.double()
    if group:
        exact = (exact.view(-1, group) @ hadamard(group)).view(exact.shape)
    for scale in (torch.tensor([0.3]), torch.rand(6, 1) + 0.1):
        for dtype, limit in zip(DTYPES, (5e-4, 4e-3, 1e-6, 1e-12), strict=True):
            found = dequantise(stored, scale, group, dtype)
            assert found.dtype == dtype
            assert relative_rms(found, exact * scale) < limit


def test_a_rotation_is_its_own_inverse() -> None:
    for group in (4, 16, 64, 256, 1024):
        found = rotation(group, torch.device("cpu"), torch.float64)
        assert torch.equal(found, hadamard(group))
        assert torch.equal(found @ found, torch.eye(group, dtype=torch.float64))


def test_an_fp8_product_takes_the_values_of_a_file_as_they_are() -> None:
    stored = (torch.randn(16, 32) * 3).to(torch.float8_e4m3fn)
    layer = Fp8Product(32, 16, bias=False)
    layer.take(stored)
    assert torch.equal(layer.dense_weight(torch.float32), stored.float())


def test_an_fp8_product_is_as_near_as_three_bits_of_mantissa_allow() -> None:
    for size in (1e-20, 1e-3, 1.0, 1e4, 1e30):
        weight, x = torch.randn(48, 64) * size, torch.randn(70, 64)
        layer = Fp8Product(64, 48, bias=False)
        layer.take(weight)
        wanted = F.linear(x.double(), weight.double())
        assert 0.01 < relative_rms(layer(x), wanted) < 0.05, size


def test_zeros_and_outliers_of_fp8_stay_finite() -> None:
    layer = Fp8Product(32, 16, bias=False)
    layer.take(torch.randn(16, 32))
    assert torch.equal(layer(torch.zeros(3, 32)), torch.zeros(3, 16))
    x = torch.randn(5, 32)
    x[2, 7] = -6e4
    assert layer(x).isfinite().all()
    x[2, 7] = torch.nan
    assert layer(x)[2].isnan().all()


def test_int8_sums_of_whole_values_are_exact() -> None:
    weight = torch.randint(-127, 128, (24, 64)).float()
    x = torch.randint(-127, 128, (40, 64)).float()
    weight[:, 0], x[:, 0] = 127, -127  # so that every scale is one
    wanted = F.linear(x.double(), weight.double())
    assert torch.equal(int8(weight)(x).double(), wanted)
    assert torch.equal(int8(0 * weight)(x), torch.zeros(40, 24))
    assert torch.equal(int8(weight)(0 * x), torch.zeros(40, 24))


def test_int8_takes_any_number_of_tokens() -> None:
    weight = torch.randn(24, 64)
    for rows in (1, 16, 17, 33, 2049):
        x = torch.randn(rows, 64)
        found = int8(weight)(x)
        assert found.shape == (rows, 24)
        assert relative_rms(found, F.linear(x.double(), weight.double())) < 0.03


def test_every_row_and_every_token_has_its_own_scale() -> None:
    sizes = torch.logspace(-6, 6, 24)[:, None]
    weight = torch.randn(24, 64) * sizes
    x = torch.randn(40, 64) * torch.logspace(-5, 5, 40)[:, None]
    found, wanted = int8(weight)(x), F.linear(x.double(), weight.double())
    for row in range(40):
        assert relative_rms(found[row] / sizes[:, 0], wanted[row] / sizes[:, 0]) < 0.03


def test_what_comes_out_has_the_dtype_of_what_goes_in() -> None:
    layer = int8(torch.randn(24, 64), bias=True)
    for dtype in DTYPES:
        x = torch.randn(2, 5, 64).to(dtype)
        found = layer(x)
        assert found.dtype == dtype
        wanted = F.linear(x.double(), layer.dense_weight(torch.float64), layer.bias.double())
        assert relative_rms(found, wanted) < 0.02


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_gpu_multiplies_the_same_fp8_values(dtype: torch.dtype) -> None:
    if torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("this GPU has no fp8")
    layer = Fp8Product(512, 256, bias=True)
    layer.take(torch.randn(256, 512))
    layer.bias.data.normal_()
    x = torch.randn(3000, 512).to(dtype)
    wanted = layer(x.float())
    assert relative_rms(layer.cuda()(x.cuda()).cpu(), wanted) < 5e-3


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 58, 3000])
def test_a_gpu_gives_the_same_int8_product(rows: int) -> None:
    layer = int8(torch.randn(256, 512), bias=True)
    x = torch.randn(rows, 512)
    wanted = layer(x)
    torch.testing.assert_close(layer.cuda()(x.cuda()).cpu(), wanted, rtol=1e-4, atol=1e-4)
