"""Stand-ins for the packages of attention kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from torch import Tensor

from engine.ops.attention.attention import literal

Function = Callable[..., Any]


class Package:
    """Computes the formula in the layout of a package, and records its calls."""

    def __init__(self, layout: str, *, result: Function = lambda out: out) -> None:
        self.layout, self.result = layout, result
        self.calls: list[dict[str, Any]] = []

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
        self.calls.append({**options, "shape": tuple(q.shape), "last": q.stride(-1)})
        scale = options.get("softmax_scale", options.get("sm_scale", options.get("scale")))
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        if self.layout == "HND":
            return self.result(literal(q, k, v, scale))
        out = literal(*(x.transpose(1, 2) for x in (q, k, v)), scale)
        return self.result(out.transpose(1, 2))


NHD, HND = {"causal": False}, {"tensor_layout": "HND", "is_causal": False}
PACKAGES = {
    "flash2": ("flash_attn", "flash_attn_func", "NHD", NHD),
    "flash3": ("flash_attn_interface", "flash_attn_func", "NHD", NHD),
    "xformers": ("xformers.ops", "memory_efficient_attention", "NHD", {}),
    "sage2": ("sageattention", "sageattn", "HND", HND),
    "sage2-fp16": ("sageattention", "sageattn_qk_int8_pv_fp16_cuda", "HND", HND),
    "sage2-fp8": ("sageattention", "sageattn_qk_int8_pv_fp8_cuda", "HND", HND),
    "sage3-fp4": ("sageattn3", "sageattn3_blackwell", "HND", {"per_block_mean": True}),
    "sage3-fp4-fast": ("sageattn3", "sageattn3_blackwell", "HND", {"per_block_mean": False}),
}


def install(monkeypatch: pytest.MonkeyPatch, name: str, function: Function | None = None) -> Any:
    """Put a stand-in for the package of a backend where Python looks for it."""
    path, attribute, layout, _ = PACKAGES[name]
    made = Package(layout) if function is None else function
    for part in path.split("."):
        monkeypatch.setitem(sys.modules, part, SimpleNamespace())
    monkeypatch.setitem(sys.modules, path, SimpleNamespace(**{attribute: made}))
    return made
