"""What processors and cards offer beyond the ordinary."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

# Linux's names of instructions that multiply bfloat16 numbers: x86 AVX-512 and AMX, then ARM.
_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})


@cache
def cpu_has_bf16() -> bool:
    """True when the processor multiplies bfloat16 in hardware, so that it is worth using.

    Linux says so in a file; elsewhere torch is asked, which loads it.
    """
    if sys.platform == "linux":
        return bool(_BF16_FLAGS & _linux_flags())
    import torch

    found = torch.cpu.get_capabilities()
    return bool(found.get("avx512_bf16") or found.get("amx_bf16") or found.get("bf16"))


def _linux_flags() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


# Least CUDA capability of a card that multiplies numbers of a format. Whether this build of torch
# does it on this card is found out by trying, when it is to be used.
_PRODUCTS = {"fp8": (8, 9), "int8": (7, 5), "nvfp4": (10, 0)}


def products(capability: tuple[int, int] | None) -> tuple[str, ...]:
    """Narrow number formats that a card of this CUDA capability multiplies; None: no card.

    For choices that are offered before torch is loaded.
    """
    return tuple(name for name, least in _PRODUCTS.items() if capability and capability >= least)
