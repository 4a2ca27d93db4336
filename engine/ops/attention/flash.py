"""The package flash-attn, versions 2 and 3; theirs is the order [N, L, heads, d]."""

from __future__ import annotations

from torch import Tensor

from engine.ops.attention.backend import Backend, foreign


def _second(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return _run("flash_attn", q, k, v, scale)


def _third(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return _run("flash_attn_interface", q, k, v, scale)


def _run(module: str, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    attention = foreign(module, "flash_attn_func")
    found = attention(*(x.transpose(1, 2) for x in (q, k, v)), softmax_scale=scale, causal=False)
    out: Tensor = found[0] if isinstance(found, tuple) else found  # early builds of 3 give sums too
    return out.transpose(1, 2)


BACKENDS = (
    Backend(name="flash3", run=_third, package="flash-attn 3"),
    Backend(name="flash2", run=_second, package="flash-attn 2"),
)
