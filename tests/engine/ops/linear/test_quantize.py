from __future__ import annotations

import pytest
import torch
from torch import nn

from engine.ops.linear.eight_bit import Fp8Linear
from engine.ops.linear.formats import PRODUCTS
from engine.ops.linear.gguf import GgufLinear
from engine.ops.linear.quantize import (
    STORED,
    product_kinds,
    stored_kinds,
    suits,
    swap_linears,
)


def model() -> nn.Module:
    with torch.device("meta"):
        block = nn.ModuleDict({"up": nn.Linear(64, 96), "down": nn.Linear(96, 64, bias=False)})
        ends = {"first": nn.Linear(33, 64), "norm": nn.LayerNorm(64)}
        return nn.ModuleDict({**ends, "blocks": nn.ModuleList([block])})


def test_quantised_layers_replace_the_linear_ones_by_name() -> None:
    twins = model()
    swap_linears(twins, {"blocks.0.up": "Q8_0", "blocks.0.down": "F8_E4M3"})
    up, down = twins.get_submodule("blocks.0.up"), twins.get_submodule("blocks.0.down")
    assert isinstance(up, GgufLinear)
    assert isinstance(down, Fp8Linear)
    assert up.bias is not None
    assert down.bias is None
    assert set(twins.state_dict()) == set(model().state_dict())
    assert all(value.is_meta for value in twins.state_dict().values())


def test_formats_are_those_of_the_file() -> None:
    dtypes = {
        "first.weight": "F16", "blocks.0.up.weight": "Q4_K", "blocks.0.up.bias": "F8_E4M3",
        "blocks.0.down.weight": "F8_E4M3", "norm.weight": "F8_E4M3",
    }  # fmt: skip
    found = stored_kinds(model(), dtypes)
    assert found == {"blocks.0.up": "Q4_K", "blocks.0.down": "F8_E4M3"}
    swap_linears(model(), found)


@pytest.mark.parametrize("product", PRODUCTS)
def test_products_leave_the_ends_and_impossible_sizes_alone(product: str) -> None:
    twins = model()
    kinds = product_kinds(twins, product)
    assert kinds == {"blocks.0.up": product, "blocks.0.down": product}
    swap_linears(twins, kinds)
    assert isinstance(twins.get_submodule("blocks.0.up"), PRODUCTS[product])
    assert not suits(nn.Linear(33, 64), product)
    assert product_kinds(twins, product) == {}


def test_a_format_that_cannot_be_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="33 to 64 cannot be fp8"):
        swap_linears(model(), {"first": "fp8"})
    with pytest.raises(ValueError, match="33 to 64 cannot be Q4_K"):
        swap_linears(model(), {"first": "Q4_K"})
    with pytest.raises(ValueError, match="LayerNorm"):
        swap_linears(model(), {"norm": "fp8"})
    with pytest.raises(ValueError, match="no format 'Q9'"):
        swap_linears(model(), {"first": "Q9"})


def test_what_is_stored_and_what_multiplies_have_different_names() -> None:
    assert not STORED & set(PRODUCTS)
