"""Blocks of GGUF files with any bits at all."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.ops.linear.gguf import BLOCKS

SCALES = {"Q6_K": (208,), "Q8_0": (0,), "Q4_0": (0,), "Q5_0": (0,)}  # bytes of half numbers


def random_blocks(kind: str, count: int, seed: int = 1) -> Tensor:
    """Any bits at all, with finite scales of either sign."""
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randint(0, 256, (count, BLOCKS[kind].bytes), generator=generator)
    raw = raw.to(torch.uint8)
    for place in SCALES.get(kind, (0, 2)):
        scales = torch.randn(count, 1, generator=generator).half()
        raw[:, place : place + 2] = scales.view(torch.uint8)
    return raw
