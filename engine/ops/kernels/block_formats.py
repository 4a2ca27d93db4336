"""Formats of weights in the blocks of GGUF files, and their values by operators of torch.

A block has some values of 3 to 8 bits, their scale and offset; the layouts are those of ggml
(`docs/gguf.md` and `ggml-common.h` there, MIT). Values are computed in float32. These functions
are the reference of the kernels in blocks.cu, and their replacement on other devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """Format of blocks: a number of values in a number of bytes."""

    values: int
    bytes: int
    unpack: Callable[[Tensor], Tensor]  # blocks uint8 [N, bytes] to float32 [N, values]


def _halves(blocks: Tensor, begin: int, count: int = 1) -> Tensor:
    """float16 values from byte `begin` on, as float32 [N, count]."""
    return blocks.view(torch.float16)[:, begin // 2 : begin // 2 + count].float()


def _nibbles(content: Tensor) -> Tensor:
    """[N, n] bytes to [N, 2, n]: the low four bits of all, then the high ones."""
    return torch.stack((content & 15, content >> 4), 1)


def _bits(content: Tensor, width: int) -> Tensor:
    """[N, n] bytes to [N, 8 / width, n]: the lowest bits of all, then the next ones."""
    shifts = torch.arange(0, 8, width, dtype=torch.uint8, device=content.device)
    return (content[:, None] >> shifts[:, None]) & ((1 << width) - 1)


def _q8_0(blocks: Tensor) -> Tensor:
    return blocks[:, 2:].view(torch.int8).float().mul_(_halves(blocks, 0))


def _q4_0(blocks: Tensor) -> Tensor:
    values = _nibbles(blocks[:, 2:]).flatten(1).float()
    return values.sub_(8).mul_(_halves(blocks, 0))


def _q4_1(blocks: Tensor) -> Tensor:
    scale, low = _halves(blocks, 0, 2).chunk(2, 1)
    return _nibbles(blocks[:, 4:]).flatten(1).float().mul_(scale).add_(low)


def _fifth_bits(content: Tensor) -> Tensor:
    """4 bytes [N, 4] to the fifth bit of 32 neighbouring values, [N, 32], worth 16."""
    return _bits(content, 1).transpose(1, 2).flatten(1) << 4


def _q5_0(blocks: Tensor) -> Tensor:
    values = _nibbles(blocks[:, 6:]).flatten(1) | _fifth_bits(blocks[:, 2:6])
    return values.float().sub_(16).mul_(_halves(blocks, 0))


def _q5_1(blocks: Tensor) -> Tensor:
    scale, low = _halves(blocks, 0, 2).chunk(2, 1)
    values = _nibbles(blocks[:, 8:]).flatten(1) | _fifth_bits(blocks[:, 4:8])
    return values.float().mul_(scale).add_(low)


def _scales_and_lows(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Factors of eight groups, [N, 8, 1] each: 6 bits in 12 bytes, times those of the block."""
    first, second, rest = blocks[:, 4:16].view(-1, 3, 4).unbind(1)
    scales = torch.cat((first & 63, (rest & 15) | (first >> 6) << 4), 1)
    lows = torch.cat((second & 63, (rest >> 4) | (second >> 6) << 4), 1)
    scale, low = _halves(blocks, 0, 2).chunk(2, 1)
    return (scale * scales)[..., None], (low * lows)[..., None]


def _groups(content: Tensor) -> Tensor:
    """128 bytes [N, 128] to eight groups [N, 8, 32]: low and high halves of 32 bytes in turn."""
    return _nibbles(content.reshape(-1, 32)).view(-1, 8, 32)


def _q4_k(blocks: Tensor) -> Tensor:
    scales, lows = _scales_and_lows(blocks)
    return _groups(blocks[:, 16:]).float().mul_(scales).sub_(lows).flatten(1)


def _q5_k(blocks: Tensor) -> Tensor:
    scales, lows = _scales_and_lows(blocks)
    values = _groups(blocks[:, 48:]) | _bits(blocks[:, 16:48], 1) << 4
    return values.float().mul_(scales).sub_(lows).flatten(1)


def _q3_k(blocks: Tensor) -> Tensor:
    low = _bits(blocks[:, 32:96].reshape(-1, 32), 2).view(-1, 8, 32)  # of halves of 128 values
    codes = low | _bits(blocks[:, :32], 1) << 2
    scales = _nibbles(blocks[:, 96:104]).flatten(1) | _bits(blocks[:, 104:108], 2).flatten(1) << 4
    factors = scales.float().sub_(32).mul_(_halves(blocks, 108))
    return codes.view(-1, 16, 16).float().sub_(4).mul_(factors[..., None]).flatten(1)


def _q6_k(blocks: Tensor) -> Tensor:
    low = _nibbles(blocks[:, :128].reshape(-1, 64)).view(-1, 4, 32)  # of halves of 128 values
    values = low | _bits(blocks[:, 128:192].reshape(-1, 32), 2) << 4
    scales = blocks[:, 192:208].view(torch.int8).float() * _halves(blocks, 208)
    values = values.reshape(-1, 16, 16).float().sub_(32)
    return values.mul_(scales[..., None]).flatten(1)


BLOCKS = {
    "Q4_0": BlockFormat(32, 18, _q4_0),
    "Q4_1": BlockFormat(32, 20, _q4_1),
    "Q5_0": BlockFormat(32, 22, _q5_0),
    "Q5_1": BlockFormat(32, 24, _q5_1),
    "Q8_0": BlockFormat(32, 34, _q8_0),
    "Q3_K": BlockFormat(256, 110, _q3_k),
    "Q4_K": BlockFormat(256, 144, _q4_k),
    "Q5_K": BlockFormat(256, 176, _q5_k),
    "Q6_K": BlockFormat(256, 210, _q6_k),
}
