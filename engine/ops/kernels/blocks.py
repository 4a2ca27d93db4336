"""Weights in the blocks of GGUF files, unpacked in one pass: blocks.cu.

The PyTorch reference is `engine.ops.kernels.block_formats`, which takes ten to thirty passes and
as many launches; tests run the same source on the CPU.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.ops.kernels import build, driver
from engine.ops.kernels.block_formats import BLOCKS
from engine.ops.kernels.build import pointer

_THREADS = 256  # THREADS of the source
_ALIGNMENT = 16  # bytes; more would change nothing
_LEAST_ALIGNMENT = 2  # of the float16 scales
_MOST_BLOCKS = 2**31 - 1  # blockIdx.x; a thread takes further units


@dataclass(frozen=True, slots=True)
class BlockKernels:
    """The kernels of all formats, for one device, dtype, vector and alignment of the bytes."""

    module: driver.Module

    def unpack(self, kind: str, raw: Tensor, out: Tensor) -> None:
        """Write the values of blocks.

        Args:
            kind: A name out of BLOCKS.
            raw: uint8, blocks one after the other; `find` has accepted it.
            out: Their values, as many, whatever its shape.
        """
        count = out.numel() // BLOCKS[kind].values
        per_block = 2 * _THREADS * (build.LOAD_BYTES // out.element_size())
        blocks = min(-(-out.numel() // per_block), _MOST_BLOCKS), 1, 1
        arguments = pointer(raw), pointer(out), ctypes.c_longlong(count)
        self.module.launch(f"unpack_{kind.lower()}", (blocks, (_THREADS, 1, 1), 0), arguments)


def find(raw: Tensor, out: Tensor) -> BlockKernels | None:
    """Kernels for bytes and values in contiguous memory; None: the PyTorch reference is used."""
    if not build.is_gpu(raw.device) or not (raw.is_contiguous() and out.is_contiguous()):
        return None
    vector, alignment = build.vector_width(out.view(-1)), math.gcd(_ALIGNMENT, raw.data_ptr())
    if vector * out.element_size() != build.LOAD_BYTES or alignment < _LEAST_ALIGNMENT:
        return None
    return KERNELS.load(raw.device, out.dtype, vector, alignment)


def _error(
    kernels: BlockKernels, device: torch.device, dtype: torch.dtype, sizes: tuple[int, int]
) -> float:
    """0 if all values of some blocks of each format are the reference's to the bit, else infinite.

    Their bytes begin at the alignment that is tried, and values around the result stay.
    """
    random = torch.Generator().manual_seed(1)
    for kind, block in BLOCKS.items():
        count = 5
        raw = torch.randint(0, 256, (count, block.bytes), generator=random, dtype=torch.uint8)
        halves = raw.view(torch.float16)
        halves[~halves.isfinite()] = 0.5  # whatever is a scale among them
        wanted = block.unpack(raw).to(dtype).view(-1)
        held = torch.zeros(sizes[1] % _ALIGNMENT + raw.numel(), dtype=torch.uint8, device=device)
        held[sizes[1] % _ALIGNMENT :] = raw.view(-1).to(device)
        whole = torch.full((len(wanted) + 2 * block.values,), 7, dtype=dtype, device=device)
        kernels.unpack(kind, held[sizes[1] % _ALIGNMENT :], whole[block.values : -block.values])
        found = whole.cpu()
        same = torch.equal(found[block.values : -block.values], wanted)
        edges = found[: block.values], found[-block.values :]
        if not same or any(bool((edge != 7).any()) for edge in edges):
            return math.inf
    return 0.0


KERNELS = build.KernelFamily(
    "weight block", "blocks", "ALIGNMENT", BlockKernels, _error, lambda vector: _ALIGNMENT
)
working = KERNELS.working
