"""Quantised matrix products that a device can compute, by trial on small ones."""

from __future__ import annotations

import logging
from functools import cache

import torch
from torch import Tensor

from engine.core.errors import FeatureMissing
from engine.core.messages import Message, message
from engine.hardware.out_of_memory import is_out_of_memory
from engine.ops.linear.eight_bit import Fp8Product, Int8Product
from engine.ops.linear.nvfp4 import NvFp4Product
from engine.ops.linear.quantized_linear import ProductLinear

logger = logging.getLogger(__name__)

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
    return tuple(kind for kind in PRODUCTS if _works(kind, torch.device(device)))


def require(kind: str, device: torch.device | str) -> None:
    """Refuse a matrix product that a device cannot compute.

    Raises:
        FeatureMissing: It cannot; the hint names the nearest one that it can.
        KeyError: There is no such product; an internal error.
    """
    where = torch.device(device)
    if _works(kind, where):
        return
    other = next((near for near in _NEAREST[kind] if _works(near, where)), "")
    case = "matmul-format" if other else "matmul-format-none-here"
    raise FeatureMissing(case, device=_name(where), kind=kind, nearest=other)


def rounded(kind: str, x: Tensor) -> Tensor:
    """Values [N, K] rounded as for a matrix product, in float64; sides as the format requires."""
    layer = PRODUCTS[kind](x.shape[1], x.shape[0], bias=False).to(x.device)
    layer.take(x)
    return layer.dense_weight(torch.float32).double()


@cache
def _works(kind: str, device: torch.device) -> bool:
    try:
        with torch.inference_mode():
            error = _error(kind, device)
    except (RuntimeError, ValueError) as err:
        if is_out_of_memory(err):  # it may pass: no verdict, and nothing is remembered
            raise
        logger.info("%s products on %s: %s", kind, device, str(err).partition("\n")[0])
        return False
    logger.info("%s products on %s: relative error %.1e", kind, device, error)
    return error <= _LIMIT


def _error(kind: str, device: torch.device) -> float:
    """Relative RMS error of a product of the same rounded values in float64; may be NaN."""
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
