"""The attention of torch: its own choice, and each of its kernels by name.

Which of them a build of torch has, and a card can run, differs: Windows builds have no flash, cuDNN
is never torch's own choice but often the fastest.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from engine.ops.attention.backend import Backend

_SCORES_BYTES = 256 * 2**20  # of the scores and their softmax that exist at once


def _own_choice(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, scale=scale)


def _by(kernel: SDPBackend, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
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
            out[part] = _by(SDPBackend.MATH, q[part], k[part], v[part], scale)
    return out


BACKENDS = (
    Backend(name="sdpa", run=_own_choice),
    Backend(name="cudnn", run=partial(_by, SDPBackend.CUDNN_ATTENTION)),
    Backend(name="flash", run=partial(_by, SDPBackend.FLASH_ATTENTION)),
    Backend(name="efficient", run=partial(_by, SDPBackend.EFFICIENT_ATTENTION)),
    Backend(name="math", run=_formula),
)
