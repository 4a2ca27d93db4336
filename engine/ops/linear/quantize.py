"""Replaces linear layers of a model on the meta device by quantised ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn

from engine.ops.linear import eight_bit, gguf
from engine.ops.linear.formats import PRODUCTS
from engine.ops.linear.quantized_linear import QuantizedLinear

# Formats of files whose tensors are used as they are stored; names as in `dtypes` of a file.
STORED: frozenset[str] = frozenset(eight_bit.FORMATS) | frozenset(gguf.BLOCKS)


def swap_linears(model: nn.Module, kinds: Mapping[str, str]) -> None:
    """Replace linear layers by quantised ones on the meta device.

    The names of weights and biases stay: a file's `NAME.weight` belongs to the layer NAME. Layers
    of STORED formats get the file's tensors by assignment; those of PRODUCTS round a dense weight
    by `take`, and their scales are buffers that no file has.

    Args:
        model: Built on the meta device.
        kinds: Path of a layer -> a name out of STORED or PRODUCTS.

    Raises:
        ValueError: Not a linear layer, or its sizes do not suit the format; an internal error.
    """
    for path, kind in kinds.items():
        owner, _, leaf = path.rpartition(".")
        linear = model.get_submodule(path)
        if not isinstance(linear, nn.Linear):
            raise ValueError(f"{path} is {type(linear).__name__}, not a linear layer")
        setattr(model.get_submodule(owner), leaf, quantized_of(linear, kind))


def quantized_of(linear: nn.Linear, kind: str) -> QuantizedLinear:
    """A quantised layer of the same sizes on the meta device.

    Raises:
        ValueError: The sizes do not suit the format, or there is none of that name.
    """
    build = _builder(kind)
    if not suits(linear, kind):
        raise ValueError(f"{linear.in_features} to {linear.out_features} cannot be {kind}")
    with torch.device("meta"):
        return build(linear.in_features, linear.out_features, linear.bias is not None)


def suits(linear: nn.Linear, kind: str) -> bool:
    """Whether the sizes of a layer are possible in a format."""
    sides = linear.in_features, linear.out_features
    if kind in gguf.BLOCKS:
        return sides[0] * sides[1] % gguf.BLOCKS[kind].values == 0
    multiple = PRODUCTS[kind].multiple if kind in PRODUCTS else 1
    return all(side % multiple == 0 for side in sides)


def stored_kinds(model: nn.Module, dtypes: Mapping[str, str]) -> dict[str, str]:
    """Layers of a model that a file stores in formats that are used as they are.

    Args:
        model: With plain linear layers.
        dtypes: Of the file's tensors, under the names of the model.

    Returns:
        For `swap_linears`.
    """
    found = {path: dtypes.get(f"{path}.weight", "") for path in _linears(model)}
    return {path: kind for path, kind in found.items() if kind in STORED}


def product_kinds(model: nn.Module, product: str, within: str = "blocks.") -> dict[str, str]:
    """Layers of a model that can multiply in a narrow format, by their sizes.

    Args:
        model: With plain linear layers.
        product: A name out of PRODUCTS.
        within: Prefix of their paths; layers outside are small, and at the ends of the model.

    Returns:
        For `swap_linears`.
    """
    linears = _linears(model).items()
    return {p: product for p, one in linears if p.startswith(within) and suits(one, product)}


def _linears(model: nn.Module) -> dict[str, nn.Linear]:
    return {path: one for path, one in model.named_modules() if isinstance(one, nn.Linear)}


def _builder(kind: str) -> Callable[[int, int, bool], QuantizedLinear]:
    if kind in gguf.BLOCKS:
        return lambda into, out, bias: gguf.GgufLinear(into, out, kind, bias=bias)
    if kind in eight_bit.FORMATS:
        return lambda into, out, bias: eight_bit.EightBitLinear(into, out, kind, bias=bias)
    if kind in PRODUCTS:
        return lambda into, out, bias: PRODUCTS[kind](into, out, bias=bias)
    raise ValueError(f"there is no format {kind!r}")
