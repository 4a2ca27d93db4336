from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core.errors import FeatureMissing
from engine.ops.linear import formats, quantized_linear
from engine.ops.linear.eight_bit import Int8Product
from engine.ops.linear.formats import PRODUCTS, require, rounded, working
from tests.helpers.tensors import relative_rms


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    forget = formats.fault_of.cache_clear  # a test puts another function in its place
    forget()
    yield
    forget()


def test_a_product_is_that_of_the_rounded_values() -> None:
    assert "int8" in working("cpu")
    for kind in working("cpu"):
        require(kind, "cpu")
        layer = PRODUCTS[kind](64, 48, bias=True)
        layer.take(torch.randn(48, 64))
        layer.bias.data.normal_()
        x = torch.randn(80, 64)
        wanted = F.linear(rounded(kind, x), layer.dense_weight(torch.float64), layer.bias.double())
        assert relative_rms(layer(x), wanted) < 1e-5
        layer.bias.data = layer.bias.data.bfloat16()
        assert relative_rms(layer(x.bfloat16()), wanted) < 0.02


def test_many_tokens_share_the_scale_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = PRODUCTS["fp8"](64, 48, bias=False)
    layer.take(torch.randn(48, 64))
    x = torch.randn(70, 64) * torch.logspace(-3, 3, 70)[:, None]
    wanted = layer(x)
    monkeypatch.setattr(quantized_linear, "_ROWS", 16)
    assert torch.equal(layer(x), wanted)


@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_product_has_scales_in_float32_no_gradients_and_no_result_of_no_tokens(
    kind: str,
) -> None:
    layer = PRODUCTS[kind](64, 64, bias=True)
    layer.take(torch.randn(64, 64).half())
    assert {name for name, _ in layer.named_parameters()} == {"weight", "bias"}
    assert not any(one.requires_grad for one in layer.parameters())
    assert layer.get_buffer("weight_scale").dtype == torch.float32
    assert layer(torch.randn(2, 0, 64)).shape == (2, 0, 64)


def test_a_product_that_is_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(layer: Int8Product, x: Tensor, scale: Tensor | None, out: Tensor) -> None:
        out.fill_(torch.nan)

    monkeypatch.setattr(Int8Product, "multiply", wrong)
    assert "int8" not in working("cpu")


def test_a_refusal_names_the_nearest_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FeatureMissing, match="cannot multiply nvfp4 values") as caught:
        require("nvfp4", "cpu")
    assert caught.value.params["nearest"] in working("cpu")
    assert f"Choose {caught.value.params['nearest']}" in caught.value.hint
    monkeypatch.setattr(formats, "fault_of", lambda kind, device: "no")
    with pytest.raises(FeatureMissing) as caught:
        require("int8", "cpu")
    assert caught.value.hint == "Choose exact matrix products."
    with pytest.raises(KeyError):
        require("int3", "cpu")
