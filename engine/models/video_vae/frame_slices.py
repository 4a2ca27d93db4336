"""Frames of a shot between source and VAE: the same for every family."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.core.errors import NumericOverflow
from engine.core.geometry import Box, Size
from engine.ops.colour.correction import blend_strength, correct_colour
from engine.ops.resize import resize, with_beyond
from engine.tiling.latent_clips import mirrored_indices, padded_length


def as_clip(frames: Tensor) -> Tensor:
    """[T, C, H, W] as a clip [1, C, T, H, W]."""
    return frames.movedim(0, 1).unsqueeze(0)


def as_frames(clip: Tensor) -> Tensor:
    """A clip [1, C, T, H, W] as frames [T, C, H, W]."""
    return clip.squeeze(0).movedim(0, 1)


def cut(frames: Tensor, box: Box) -> Tensor:
    """The pixels of a box, a view."""
    return frames[..., box.y : box.bottom, box.x : box.right]


def finished(
    frames: Tensor, source: Tensor, size: Size, *, colour: str = "none", strength: int = 100
) -> Tensor:
    """Frames of a decoder as finished ones, with the values of the source outside of [0, 1].

    The range of a model ends at black and white; those values are whiter than white, or colours
    outside of RGB.

    Args:
        frames: [T, 3, H, W] in [-1, 1], padded to the right and below.
        source: These frames of the source [T, 3, h, w], nominally [0, 1], on any device.
        size: Size of the result.
        colour: Method of the correction of colours.
        strength: Share of the restoration, %; the rest is the source's.

    Returns:
        [T, 3, size.height, size.width], nominally [0, 1].
    """
    source = source.to(frames.device)
    result = frames[..., : size.height, : size.width].add(1).mul_(0.5)
    if colour == "none" and strength == 100:
        result = result.clamp_(0, 1)
    else:
        inside = resize(source, size)
        inside = inside.clamp(0, 1) if inside is source else inside.clamp_(0, 1)
        scale = size.width / source.shape[-1]
        result = correct_colour(colour, result, inside, scale=scale).clamp_(0, 1)
        if strength < 100:
            result = blend_strength(result, inside, strength / 100)
    return with_beyond(result, source)


class FiniteCheck:
    """Parts of a model whose values are looked at where they are; the host waits in `check` alone.

    Parts after one whose values are NaN or infinite only hand them on: the first one is to blame.

    Memory: one truth value of each part, on its device.
    """

    def __init__(self) -> None:
        self._noted: dict[str, tuple[Tensor, str]] = {}  # by part, in the order of their work

    def note(self, values: Tensor, part: str, dtype: torch.dtype | None = None) -> None:
        """Look at values of a part, without waiting for them.

        Args:
            values: [N, ...].
            part: Part of the model that they come from, a case of `NumericOverflow`.
            dtype: Type that they were computed in; None for their own.

        Memory: one of the N, where it is cut out of others.
        """
        ends = [end for one in values for end in torch.aminmax(_as_stored(one))]
        are_finite = torch.isfinite(torch.stack(ends)).all()
        if part in self._noted:
            are_finite &= self._noted[part][0]
        self._noted[part] = are_finite, str(dtype or values.dtype).removeprefix("torch.")

    def check(self) -> None:
        """Refuse the values since the last check if some are NaN or infinite.

        Raises:
            NumericOverflow: The planner takes a wider format.
        """
        noted, self._noted = self._noted, {}
        if not noted or bool(torch.stack([found for found, _ in noted.values()]).all()):
            return
        part = next(part for part, (are_finite, _) in noted.items() if not bool(are_finite))
        raise NumericOverflow(part, dtype=noted[part][1])


def check_finite(values: Tensor, part: str = "decoder", dtype: torch.dtype | None = None) -> None:
    """Refuse values [N, ...] of a part that are NaN or infinite; see `FiniteCheck`."""
    check = FiniteCheck()
    check.note(values, part, dtype)
    check.check()


def _as_stored(values: Tensor) -> Tensor:
    """Values in the order of memory, which torch would copy them to."""
    order = sorted(range(values.dim()), key=values.stride, reverse=True)
    return values.permute(order)


class Ending:
    """Counts the frames of a shot and fills its last latent with mirrored frames.

    Args:
        step: Frames of a latent.
        first: Number of the first frame that is fed, the last one of its latent.

    Attributes:
        count: Frames so far, those before the first one included.

    Memory: the last slice.
    """

    def __init__(self, step: int, first: int = 0) -> None:
        self._step = step
        self._history: list[Tensor] = []
        self.count = first

    def filled(self, frames: Tensor, *, last: bool) -> Tensor:
        """The next frames [T, C, H, W], at the end of the shot with mirrored ones after them."""
        self.count += len(frames)
        known = [*self._history, *frames.unbind()]
        missing = padded_length(self.count, self._step) - self.count
        self._history = [] if last else known[-self._step :]
        if not last or not missing:
            return frames
        before = self.count - len(known)
        tail = [
            known[index - before] for index in mirrored_indices(self.count, missing)[self.count :]
        ]
        return torch.cat([frames, torch.stack(tail)])
