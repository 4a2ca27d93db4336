"""Formats of linear layers: matrix products that a device has, and layers replaced by them.

A product is tried on small matrices. Layers of a model on the meta device are replaced by quantised
ones before its file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from engine.core.errors import FeatureMissing
from engine.core.messages import message
from engine.ops.kernels.block_formats import BLOCKS
from engine.ops.linear import eight_bit
from engine.ops.linear.eight_bit import Fp8Product, Int8Product
from engine.ops.linear.gguf import GgufLinear
from engine.ops.linear.nvfp4 import NvFp4Product
from engine.ops.linear.quantized_linear import ProductLinear, QuantizedLinear
from engine.ops.trials import trial

PRODUCTS: dict[str, type[ProductLinear]] = {
    "fp8": Fp8Product,
    "int8": Int8Product,
    "nvfp4": NvFp4Product,
}
# What comes nearest to a format in speed and memory, the best first.
_NEAREST = {"fp8": ("int8",), "int8": ("fp8",), "nvfp4": ("fp8", "int8")}
_SIZES = 64, 256, 128  # rows, and both sides of the weight
_LIMIT = 5e-3  # relative RMS compared with the same rounded values; float16 explains 5e-4


def working(device: torch.device | str) -> tuple[str, ...]:
    """Names out of PRODUCTS that a device computes correctly; tried once per process."""
    return tuple(kind for kind in PRODUCTS if not fault_of(kind, torch.device(device)))


def require(kind: str, device: torch.device | str) -> None:
    """Refuse a matrix product that a device cannot compute.

    Raises:
        FeatureMissing: It cannot; the hint names the nearest one that it can.
        KeyError: There is no such product; an internal error.
    """
    where = torch.device(device)
    if not fault_of(kind, where):
        return
    other = next((near for near in _NEAREST[kind] if not fault_of(near, where)), "")
    case = "matmul-format" if other else "matmul-format-none-here"
    is_gpu = where.type == "cuda"
    name = torch.cuda.get_device_name(where) if is_gpu else message("device.processor")
    raise FeatureMissing(case, device=name, kind=kind, nearest=other)


def rounded(kind: str, x: Tensor) -> Tensor:
    """Values [N, K] rounded as for a matrix product, in float64; sides as the format requires."""
    layer = PRODUCTS[kind](x.shape[1], x.shape[0], bias=False).to(x.device)
    layer.take(x)
    return layer.dense_weight(torch.float32).double()


@trial(_LIMIT, RuntimeError, ValueError)
def fault_of(kind: str, device: torch.device) -> float:
    """Why a product is not right on a device; "" where it is.

    Its error is the relative RMS against the same rounded values in float64.
    """
    rows, inside, outside = _SIZES
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, inside, generator=generator).to(device, torch.float16)
    layer = PRODUCTS[kind](inside, outside, bias=False).to(device)
    layer.take(torch.randn(outside, inside, generator=generator).to(device))
    wanted = rounded(kind, x).cpu() @ layer.dense_weight(torch.float32).double().cpu().t()
    found = layer(x).double().cpu()
    return float((found - wanted).square().mean().sqrt() / wanted.square().mean().sqrt())


# --- layers of a model


# Formats of files whose tensors are used as they are stored; names as in `dtypes` of a file.
STORED: frozenset[str] = frozenset(eight_bit.FORMATS) | frozenset(BLOCKS)


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
    if kind in BLOCKS:
        return sides[0] * sides[1] % BLOCKS[kind].values == 0
    multiple = PRODUCTS[kind].multiple if kind in PRODUCTS else 1
    return all(side % multiple == 0 for side in sides)


def stored_kinds(model: nn.Module, dtypes: Mapping[str, str]) -> dict[str, str]:
    """Layers of a model that a file stores in formats that are used as they are.

    Args:
        model: Model with plain linear layers.
        dtypes: Types of the file's tensors, under the names of the model.

    Returns:
        For `swap_linears`.
    """
    found = {path: dtypes.get(f"{path}.weight", "") for path in _linears(model)}
    return {path: kind for path, kind in found.items() if kind in STORED}


def product_kinds(model: nn.Module, product: str, within: str = "blocks.") -> dict[str, str]:
    """Layers of a model that can multiply in a narrow format, by their sizes.

    Args:
        model: Model with plain linear layers.
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
    if kind in BLOCKS:
        return lambda into, out, bias: GgufLinear(into, out, kind, bias=bias)
    if kind in eight_bit.FORMATS:
        return lambda into, out, bias: eight_bit.EightBitLinear(into, out, kind, bias=bias)
    if kind in PRODUCTS:
        return lambda into, out, bias: PRODUCTS[kind](into, out, bias=bias)
    raise ValueError(f"there is no format {kind!r}")
