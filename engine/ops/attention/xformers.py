"""The package xformers; its order is [N, L, heads, d]."""

from __future__ import annotations

from torch import Tensor

from engine.ops.attention.backend import Backend, foreign


def _run(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    attention = foreign("xformers.ops", "memory_efficient_attention")
    out: Tensor = attention(*(x.transpose(1, 2) for x in (q, k, v)), scale=scale)
    return out.transpose(1, 2)


BACKENDS = (Backend(name="xformers", run=_run, package="xformers"),)
