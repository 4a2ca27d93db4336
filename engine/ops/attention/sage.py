"""The packages sageattention and sageattn3: products of 8 and of 4 bits, faster and less exact.

Version 2 multiplies q and k in INT8, v in FP16 or FP8, by its own choice or as named. Version 3,
for Blackwell cards, multiplies everything in FP4; q is centred for every 128 tokens, or, faster and
less exact, for all together.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from engine.ops.attention.backend import Backend, foreign


def _second(function: str, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    attention = foreign("sageattention", function)
    out: Tensor = attention(q, k, v, tensor_layout="HND", is_causal=False, sm_scale=scale)
    return out


def _third(centred_in_blocks: bool, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    attention = foreign("sageattn3", "sageattn3_blackwell")
    factor = scale * q.shape[-1] ** 0.5  # it always divides by sqrt(d)
    q = q.contiguous() if abs(factor - 1) < 1e-6 else q.contiguous() * factor
    k = k.clone(memory_format=torch.contiguous_format)  # it takes the mean off in place
    out: Tensor = attention(q, k, v.contiguous(), is_causal=False, per_block_mean=centred_in_blocks)
    return out


def _backend(name: str, package: str, run: partial[Tensor]) -> Backend:
    return Backend(name=name, run=run, package=package, is_exact=False)


BACKENDS = (
    _backend("sage2", "sageattention", partial(_second, "sageattn")),
    _backend("sage2-fp16", "sageattention", partial(_second, "sageattn_qk_int8_pv_fp16_cuda")),
    _backend("sage2-fp8", "sageattention", partial(_second, "sageattn_qk_int8_pv_fp8_cuda")),
    _backend("sage3-fp4", "sageattn3", partial(_third, True)),
    _backend("sage3-fp4-fast", "sageattn3", partial(_third, False)),
)
