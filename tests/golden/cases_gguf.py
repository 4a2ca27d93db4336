"""Blocks of GGUF files: `TYPE.raw_bytes` unpacks to `TYPE.dequantized_fp32`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from engine.ops.kernels.block_formats import BLOCKS
from engine.ops.linear.gguf import dequantise
from tests.golden import files
from tests.golden.outcome import Outcome, compared

LIMIT = 1e-6  # largest absolute difference; ours was 0, both compute in float32
_RAW, _VALUES = ".raw_bytes", ".dequantized_fp32"


def check_blocks(path: Path) -> Iterator[Outcome]:
    """Every format of a file."""
    tensors = files.tensors(path)
    kinds = [name.removesuffix(_VALUES) for name in tensors if name.endswith(_VALUES)]
    for kind in kinds:
        case, wanted = f"{path.name} {kind}", tensors[kind + _VALUES]
        raw = tensors.get(kind + _RAW)
        if raw is None or kind not in BLOCKS:
            yield Outcome(case=case, problem="no blocks of a format that we know")
            continue
        found = dequantise(raw.to(torch.uint8), kind, tuple(wanted.shape))
        yield compared(case, found, wanted, LIMIT)
    if not kinds:
        yield Outcome(case=path.name, problem="there is nothing to compare with")
