"""Backends of attention: torch's own kernels, and those of optional packages.

Which of torch's kernels a build has, and a GPU can run, differs: Windows builds have no flash, and
cuDNN is never torch's own choice but often the fastest. The packages flash-attn and xformers order
tensors [N, L, heads, d]. sageattention 2 multiplies q and k in INT8, v in FP16 or FP8, by its own
choice or as named; sageattn3, for Blackwell GPUs, multiplies all in FP4, with q centred for every
128 tokens or, faster and less exact, for all together.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

AttentionFunction = Callable[[Tensor, Tensor, Tensor, float], Tensor]

_SCORES_BYTES = 256 * 2**20  # of the scores and their softmax that exist at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A backend as data; a trial run shows whether it works on a device.

    Attributes:
        name: Value in the settings.
        run: q [N, heads, Q, d], k and v [N, heads, L, d] and the factor of the scores to
            [N, heads, Q, d]. Raises any exception where it cannot run, ImportError where its
            package is not installed.
        package: Package that has to be installed; empty: torch itself is enough.
        is_exact: Equal to the formula except for the rounding of the dtype.
    """

    name: str
    run: AttentionFunction
    package: str = ""
    is_exact: bool = True


# --- torch


def _own_choice(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, scale=scale)


def _torch_kernel(kernel: SDPBackend, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    with sdpa_kernel(kernel):
        return F.scaled_dot_product_attention(q, k, v, scale=scale)


def _formula(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """The formula step by step, for some windows and heads at a time.

    Memory: the result, and 256 MiB of scores or those of one head if that is more.
    """
    out = torch.empty_like(q)
    windows, heads, length, _ = q.shape
    at_once = max(1, _SCORES_BYTES // max(1, 2 * 4 * length * k.shape[2]))
    for n in range(0, windows, max(1, at_once // heads)):
        for h in range(0, heads, at_once):
            part = slice(n, n + max(1, at_once // heads)), slice(h, h + at_once)
            out[part] = _torch_kernel(SDPBackend.MATH, q[part], k[part], v[part], scale)
    return out


# --- optional packages


def _function(module: str, function: str) -> Callable[..., Any]:
    """A function of an optional package.

    Raises:
        ImportError: The package is not installed, or has no such function.
    """
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except AttributeError as err:
        raise ImportError(f"{module} has no {function}") from err
    return found


def _flash(module: str, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    attention = _function(module, "flash_attn_func")
    found = attention(*(x.transpose(1, 2) for x in (q, k, v)), softmax_scale=scale, causal=False)
    # early builds of version 3 return sums too
    out: Tensor = found[0] if isinstance(found, tuple) else found
    return out.transpose(1, 2)


def _xformers(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    attention = _function("xformers.ops", "memory_efficient_attention")
    out: Tensor = attention(*(x.transpose(1, 2) for x in (q, k, v)), scale=scale)
    return out.transpose(1, 2)


def _sage2(function: str, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    attention = _function("sageattention", function)
    out: Tensor = attention(q, k, v, tensor_layout="HND", is_causal=False, sm_scale=scale)
    return out


def _sage3(centred_in_blocks: bool, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    attention = _function("sageattn3", "sageattn3_blackwell")
    factor = scale * q.shape[-1] ** 0.5  # it always divides by sqrt(d)
    q = q.contiguous() if abs(factor - 1) < 1e-6 else q.contiguous() * factor
    k = k.clone(memory_format=torch.contiguous_format)  # it subtracts the mean in place
    out: Tensor = attention(q, k, v.contiguous(), is_causal=False, per_block_mean=centred_in_blocks)
    return out


def _sage(name: str, package: str, run: partial[Tensor]) -> Backend:
    return Backend(name=name, run=run, package=package, is_exact=False)


# Best guess first; torch's own choice is the one that others have to beat.
_TABLE = (
    Backend(name="sdpa", run=_own_choice),
    Backend(name="cudnn", run=partial(_torch_kernel, SDPBackend.CUDNN_ATTENTION)),
    Backend(name="flash", run=partial(_torch_kernel, SDPBackend.FLASH_ATTENTION)),
    Backend(name="efficient", run=partial(_torch_kernel, SDPBackend.EFFICIENT_ATTENTION)),
    Backend(name="math", run=_formula),
    Backend(name="flash3", run=partial(_flash, "flash_attn_interface"), package="flash-attn 3"),
    Backend(name="flash2", run=partial(_flash, "flash_attn"), package="flash-attn 2"),
    Backend(name="xformers", run=_xformers, package="xformers"),
    _sage("sage2", "sageattention", partial(_sage2, "sageattn")),
    _sage("sage2-fp16", "sageattention", partial(_sage2, "sageattn_qk_int8_pv_fp16_cuda")),
    _sage("sage2-fp8", "sageattention", partial(_sage2, "sageattn_qk_int8_pv_fp8_cuda")),
    _sage("sage3-fp4", "sageattn3", partial(_sage3, True)),
    _sage("sage3-fp4-fast", "sageattn3", partial(_sage3, False)),
)
BACKENDS: dict[str, Backend] = {backend.name: backend for backend in _TABLE}
