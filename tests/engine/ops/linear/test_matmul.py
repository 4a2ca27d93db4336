from collections.abc import Iterator
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from engine.ops.linear import matmul


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    matmul._fault.cache_clear()
    yield
    matmul._fault.cache_clear()


def test_both_are_the_product() -> None:
    x, weight = torch.randn(7, 12), torch.randn(5, 12)
    for bias in (torch.randn(5), None):
        wanted = torch.nn.functional.linear(x, weight, bias)
        out = torch.empty(7, 5)
        assert matmul.product(x, weight, bias, out) is out
        assert torch.allclose(out, wanted, atol=1e-5)
        if matmul.onednn_serves(x):
            assert torch.allclose(matmul.onednn_product(x, weight, bias), wanted, atol=1e-5)


def test_only_float32_on_a_processor_is_given_to_onednn() -> None:
    assert matmul.onednn_serves(torch.zeros(1)) == (not matmul._fault())
    assert not matmul.onednn_serves(torch.zeros(1, dtype=torch.float64))
    assert not matmul.onednn_serves(torch.zeros(1, dtype=torch.bfloat16))
    assert not matmul.onednn_serves(torch.zeros(1, device="meta"))


def test_an_operator_that_is_gone_or_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "") -> Tensor:
        return torch.nn.functional.linear(x, weight, bias)  # does not activate

    for operator in (Mock(side_effect=AttributeError("no such operator")), wrong):
        matmul._fault.cache_clear()
        monkeypatch.setattr(matmul, "onednn_product", operator)
        assert not matmul.onednn_serves(torch.zeros(1))


def test_activations_are_those_of_the_models() -> None:
    x, weight, bias = torch.randn(40, 12), torch.randn(30, 12), torch.randn(30)
    if not matmul.onednn_serves(x):
        pytest.skip("this torch has no such operator")
    plain = torch.nn.functional.linear(x, weight, bias)
    gelu = torch.nn.functional.gelu(plain, approximate="tanh")
    found = matmul.onednn_product(x, weight, bias, "gelu")
    assert torch.allclose(found, gelu, atol=1e-5)
    found = matmul.onednn_product(x, weight, bias, "swish")
    assert torch.allclose(found, torch.nn.functional.silu(plain), atol=1e-5)
