"""All families of kernels, for `doctor` and `bench kernel-errors`, which try each of them.

A module of its own: each family imports `build`, which therefore cannot list them.
"""

from __future__ import annotations

from typing import Any

from engine.ops.kernels import (
    blocks,
    channel_norm,
    group_norm,
    heads,
    quantize,
    token_rows,
    wide_head,
)
from engine.ops.kernels.build import KernelFamily

FAMILIES: tuple[KernelFamily[Any], ...] = (
    group_norm.KERNELS,
    channel_norm.KERNELS,
    token_rows.KERNELS,
    token_rows.STREAM_KERNELS,
    heads.KERNELS,
    quantize.KERNELS,
    blocks.KERNELS,
    wide_head.KERNELS,
)
