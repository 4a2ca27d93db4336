"""Quantised matrix products that a device can compute, by trial on small ones."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.core.errors import FeatureMissing
from engine.core.messages import Message, message
from engine.ops.linear.eight_bit import Fp8Product, Int8Product
from engine.ops.linear.nvfp4 import NvFp4Product
from engine.ops.linear.quantized_linear import ProductLinear
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
    raise FeatureMissing(case, device=_name(where), kind=kind, nearest=other)


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


def _name(device: torch.device) -> str | Message:
    is_gpu = device.type == "cuda"
    return torch.cuda.get_device_name(device) if is_gpu else message("device.processor")
