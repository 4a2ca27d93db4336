"""Layers of the fast variant of the Wan VAEs alone: norm, patches, stages with a shortcut."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.video_vae.context import NormInput, Part, SliceContext, keep_last
from engine.models.wan.vae.fast_shortcuts import Shortcut
from engine.ops.norm import compiled
from engine.ops.norm.rms_norm import rms_norm_silu

_LEAST_LENGTH = 1e-12


class FastWanRmsNorm:
    """Divides each position by the length of its channels, with or without SiLU after it.

    Args:
        gamma: [C], float32 or float64 whatever the precision of the frames.
    """

    def __init__(self, gamma: Tensor) -> None:
        self._gamma = gamma

    def write(
        self,
        given: NormInput,
        out: Tensor,
        context: SliceContext,
        *,
        silu: bool = True,
        kept: Tensor | None = None,
    ) -> None:
        """Write the normalised frames into `out`, a view of some buffer; see `Norm`."""
        frames = given.finished()
        if context.switches.fused_norm:
            rms_norm_silu(frames, self._gamma, out, silu=silu, kernels=context.switches.kernels)
        else:
            out.copy_(self._in_steps(frames, silu=silu))
        keep_last(out, kept)

    def _in_steps(self, frames: Tensor, *, silu: bool) -> Tensor:
        """Norm as in the plain variant."""
        gamma = self._gamma[:, None, None]
        length = torch.linalg.vector_norm(frames, dim=1, keepdim=True, dtype=gamma.dtype)
        scale = len(gamma) ** 0.5 / length.clamp(min=_LEAST_LENGTH)
        normed = (frames * scale * gamma).to(frames.dtype)
        return F.silu(normed) if silu else normed


class CompiledWanRmsNorm(FastWanRmsNorm):
    """Norm compiled by torch; what it cannot compile is done as without the switch."""

    def write(
        self,
        given: NormInput,
        out: Tensor,
        context: SliceContext,
        *,
        silu: bool = True,
        kept: Tensor | None = None,
    ) -> None:
        """Write the normalised frames into `out`, a view of some buffer; see `Norm`."""
        if compiled.rms_norm_silu(given.finished(), self._gamma, out, silu=silu):
            keep_last(out, kept)
        else:
            super().write(NormInput(given.frames), out, context, silu=silu, kept=kept)


class PatchLayer:
    """Squares of 2x2 pixels side by side as channels: 4 * colour + 2 * column + row."""

    name = "patches"

    def run(self, context: SliceContext) -> None:
        """[T, C, 2h, 2w] -> [T, 4C, h, w]."""
        frames = context.take()
        count, colours, height, width = frames.shape
        folded = context.workspace.fresh((count, 4 * colours, height // 2, width // 2))
        for row, column in _PLACES:
            folded[:, 2 * column + row :: 4] = frames[:, :, row::2, column::2]
        context.put(folded)


class Pictures:
    """The inverse of patches, for Wan 2.2 or for the decoder that enlarges.

    Args:
        columns_first: Whether the offset of the column is the slower index, as in Wan 2.2.
    """

    name = "pictures"

    def __init__(self, *, columns_first: bool) -> None:
        self._strides = (1, 2) if columns_first else (2, 1)

    def run(self, context: SliceContext) -> None:
        """[T, 4C, h, w] -> [T, C, 2h, 2w]."""
        folded = context.take()
        count, channels, height, width = folded.shape
        frames = context.workspace.fresh((count, channels // 4, 2 * height, 2 * width))
        rows, columns = self._strides
        for row, column in _PLACES:
            frames[:, :, row::2, column::2] = folded[:, rows * row + columns * column :: 4]
        context.put(frames)


_PLACES = tuple((row, column) for row in range(2) for column in range(2))


class Bridged:
    """A stage of Wan 2.2: its parts, and a shortcut around all of them.

    Args:
        name: Module path.
        parts: In order.
        shortcut: Shortcut from the input to the output of all of them.
    """

    def __init__(self, name: str, parts: Sequence[Part], shortcut: Shortcut) -> None:
        self.name = name
        self._parts, self._shortcut = parts, shortcut

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        kept = self._shortcut.before(context)
        for part in self._parts:
            part.run(context)
        self._shortcut.add(kept, context)
        context.put(context.take(), self.name)
