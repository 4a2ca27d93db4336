"""Attention with one head as wide as all channels, over every position of a frame."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from engine.ops.attention.attention import fault_of
from engine.ops.attention.backends import BACKENDS
from engine.ops.kernels.build import VALUELESS

_SCORES_BYTES = 64 * 2**20  # of the scores that exist at once


def attend_single_head(q: Tensor, k: Tensor, v: Tensor, *, chunked: bool = True) -> Tensor:
    """Attend within each frame: softmax(q k' / sqrt(C)) v.

    Flash kernels end at heads of 256 channels; the memory-efficient one takes wider heads on most
    GPUs. Where it does not, or fails a trial, some queries are processed at a time, so that no
    matrix of L x L values ever exists.

    Args:
        q: [T, L, C].
        k: [T, L, C].
        v: [T, L, C].
        chunked: False: torch chooses, which may take memory that grows with L * L.

    Returns:
        [T, L, C].

    Memory: the result and, in chunks, one frame's keys and 64 MiB of scores; without chunks on
    some devices T * L * L values.
    """
    if not chunked or q.device.type == "cpu":  # torch's kernel for CPUs is blocked
        return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
    if _memory_efficient(q, k, v):
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            return F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
    return attend_in_chunks(q, k, v)


def attend_in_chunks(q: Tensor, k: Tensor, v: Tensor, scores_bytes: int = _SCORES_BYTES) -> Tensor:
    """Attend within each frame on any device, some queries of one frame at a time.

    Scores are float32 for half precision too: rounded to it, large ones would change their weight
    by several percent.

    Memory: the result, one frame's keys in float32, and `scores_bytes` or one query's scores if
    that is more.
    """
    result = torch.empty_like(q)
    length, channels = q.shape[1:]
    exact = torch.promote_types(q.dtype, torch.float32)
    rows = max(1, scores_bytes // (2 * length * exact.itemsize))  # scores and their softmax
    for t in range(q.shape[0]):
        keys = (k[t].to(exact) * channels**-0.5).t()
        for start in range(0, length, rows):
            some = q[t, start : start + rows].to(exact)
            weights = torch.softmax(some @ keys, dim=-1).to(v.dtype)
            torch.mm(weights, v[t], out=result[t, start : start + rows])
    return result


def _memory_efficient(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether torch's memory-efficient kernel takes these heads and computes them right here."""
    if q.device == VALUELESS:  # of none it is known before
        return False
    params = torch.backends.cuda.SDPAParams(
        q[:, None], k[:, None], v[:, None], None, 0.0, False, False
    )
    if not torch.backends.cuda.can_use_efficient_attention(params):
        return False
    return not fault_of(BACKENDS["efficient"], q.device, q.dtype, q.shape[-1])
