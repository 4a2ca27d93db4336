import pytest
import torch
from torch import nn

from engine.ops.linear import eight_bit
from engine.ops.linear.eight_bit import EightBitLinear
from engine.ops.linear.formats import PRODUCTS, product_kinds, stored_kinds, suits, swap_linears
from engine.ops.linear.gguf import GgufLinear
from tests.helpers.model_files import tiled


def model() -> nn.Module:
    with torch.device("meta"):
        block = nn.ModuleDict({"up": nn.Linear(64, 96), "down": nn.Linear(96, 64, bias=False)})
        ends = {"first": nn.Linear(33, 64), "norm": nn.LayerNorm(64)}
        return nn.ModuleDict({**ends, "blocks": nn.ModuleList([block])})


def test_quantised_layers_replace_the_linear_ones_by_name() -> None:
    network = model()
    swap_linears(network, {"blocks.0.up": "Q8_0", "blocks.0.down": "F8_E4M3"})
    up, down = network.get_submodule("blocks.0.up"), network.get_submodule("blocks.0.down")
    assert isinstance(up, GgufLinear)
    assert isinstance(down, EightBitLinear)
    assert up.bias is not None
    assert down.bias is None
    assert set(network.state_dict()) == set(model().state_dict())
    assert all(value.is_meta for value in network.state_dict().values())


def test_formats_are_those_of_the_file() -> None:
    dtypes = {
        "first.weight": "F16", "blocks.0.up.weight": "Q4_K", "blocks.0.up.bias": "F8_E4M3",
        "blocks.0.down.weight": "F8_E4M3", "norm.weight": "F8_E4M3",
    }  # fmt: skip
    found = stored_kinds(model(), dtypes)
    assert found == {"blocks.0.up": "Q4_K", "blocks.0.down": "F8_E4M3"}
    swap_linears(model(), found)


def test_products_leave_the_ends_and_impossible_sizes_alone() -> None:
    for product in PRODUCTS:
        network = model()
        kinds = product_kinds(network, product)
        assert kinds == {"blocks.0.up": product, "blocks.0.down": product}
        swap_linears(network, kinds)
        assert isinstance(network.get_submodule("blocks.0.up"), PRODUCTS[product])
        assert not suits(nn.Linear(33, 64), product)
        assert product_kinds(network, product) == {}


def test_a_format_that_cannot_be_is_an_error() -> None:
    errors = {
        ("first", "fp8"): "33 to 64 cannot be fp8",
        ("first", "Q4_K"): "33 to 64 cannot be Q4_K",
        ("norm", "fp8"): "LayerNorm",
        ("first", "Q9"): "no format 'Q9'",
    }
    for (layer, kind), text in errors.items():
        with pytest.raises(ValueError, match=text):
            swap_linears(model(), {layer: kind})


def test_exponents_of_blocks_are_found_in_their_tiles_and_multiply_exactly() -> None:
    for rows, blocks in ((1, 1), (33, 3), (128, 4), (200, 5), (300, 9)):
        exponents = torch.randint(0, 255, (rows, blocks)).to(torch.uint8)
        assert torch.equal(eight_bit.untiled(tiled(exponents), rows, blocks), exponents)
    exponents = torch.arange(255, dtype=torch.uint8)[:, None]
    codes = torch.randn(255, 32).to(torch.float8_e4m3fn)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        found = eight_bit.dequantise(codes, exponents, 0, dtype)
        wanted = codes.double() * 2.0 ** (exponents.double() - 127)
        assert torch.equal(found, wanted.to(torch.float32).to(dtype))
