"""What a processor offers beyond the ordinary."""

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
