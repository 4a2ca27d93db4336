"""Code values to RGB, and back: exact size, turned where the file cannot record the rotation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.ops.resize import resize_in_light
from engine.pipeline.display import put_back, turn
from engine.protocol.media import Chroma, VideoInfo, subsampling
from engine.protocol.plan import Plan
from engine.video.colour import colour_spec, from_rgb, to_rgb
from engine.video.colour_tags import assumed_transfer
from engine.video.film_preparation import enlarged
from engine.video.read.frames import PlanarFrame

Planes = tuple[np.ndarray, ...]


class Restore:
    """Turns the model's frames into what the encoder takes."""

    def __init__(self, video: VideoInfo, plan: Plan) -> None:
        self._size = plan.stored_size
        self._spec = colour_spec(plan.picture)
        self._transfer = video.tags.transfer or assumed_transfer(video)
        self._has_alpha = plan.picture.has_alpha
        # what the container cannot record is done to the pixels
        self._turn = (video.rotation - plan.picture.rotation) % 360
        self._mirror = video.is_mirrored and not plan.picture.is_mirrored
        part = plan.enlarged
        self._inside = enlarged(part, video.size, plan.picture) if part is not None else None

    def run(self, frames: Tensor, alpha: Tensor | None) -> tuple[list[Planes], Tensor]:
        """Code values for the encoder.

        Args:
            frames: [T, 3, H, W] float32, RGB, at the model's size.
            alpha: [T, 1, h, w] float32 at the source's size, or None.

        Returns:
            For each frame its planes [h, w] uint8 or uint16 in host memory; and the frames
            [T, 3 or 4, height, width] float32 they were made from.
        """
        if self._inside is None:
            picture = resize_in_light(frames, self._size, self._transfer)
        else:
            inside = resize_in_light(frames, self._inside.size, self._transfer)
            picture = put_back(inside, self._inside, self._size)
        if self._has_alpha:
            picture = torch.cat([picture, _veil(alpha, picture)], dim=1)
        picture = turn(picture, self._turn, self._mirror)
        planes = [plane.cpu().numpy() for plane in from_rgb(picture, self._spec)]
        return [tuple(plane[t] for plane in planes) for t in range(len(frames))], picture


def _veil(alpha: Tensor | None, picture: Tensor) -> Tensor:
    """Alpha at the size of a picture; opaque where the source has none."""
    if alpha is None:
        return torch.ones_like(picture[:, :1])
    size = Size(picture.shape[-1], picture.shape[-2])
    return resize_in_light(alpha, size, "linear").clamp(0, 1)


class SourceColours:
    """Turns code values into RGB on one device, of a part of the picture where one is given.

    Args:
        video: Properties of the source.
        device: Device of the colours.
        part: Part of the frame.
        fills: Whether colours beneath transparent pixels are replaced, see `fill_hidden`.
    """

    def __init__(
        self, video: VideoInfo, device: str, part: Box | None = None, *, fills: bool = False
    ) -> None:
        self._spec = colour_spec(video)
        self._device = device
        self._part = part
        self._fills = fills

    @classmethod
    def of_job(cls, video: VideoInfo, plan: Plan) -> SourceColours:
        """Colours for a job: hidden ones are unchanged where frames are only converted."""
        fills = plan.picture.has_alpha and not plan.only_converts
        return cls(video, plan.work.device, plan.enlarged, fills=fills)

    def rgb(self, frames: Sequence[PlanarFrame]) -> tuple[Tensor, Tensor | None]:
        """[T, 3, h, w] float32, nominally 0 to 1, and alpha [T, 1, h, w] or None."""
        planes = _stacked(frames)
        if self._part is not None:
            planes = _cut(planes, self._part, self._spec.chroma)
        whole = to_rgb(planes, self._spec, self._device)
        if whole.shape[1] == 3:
            return whole, None
        colours, alpha = whole[:, :3], whole[:, 3:]
        if self._fills:
            fill_hidden(colours, alpha)
        return colours, alpha


def _cut(planes: list[Tensor], part: Box, chroma: Chroma) -> list[Tensor]:
    """A part of all planes; its edges lie between chroma samples."""
    steps = [(1, 1), *(subsampling(chroma),) * 2, (1, 1)]
    return [
        plane[
            ...,
            part.y // down : -(-part.bottom // down),
            part.x // across : -(-part.right // across),
        ]
        for plane, (across, down) in zip(planes, steps, strict=False)
    ]


def _stacked(frames: Sequence[PlanarFrame]) -> list[Tensor]:
    """Planes of several frames as tensors [T, h, w]; 16-bit values become int32."""
    planes = []
    for index in range(len(frames[0].planes)):
        parts = [_tensor(frame.planes[index]) for frame in frames]
        planes.append(parts[0][None] if len(parts) == 1 else torch.stack(parts))
    return planes


def _tensor(plane: np.ndarray) -> Tensor:
    if plane.dtype == np.uint16:
        return torch.from_numpy(plane.astype(np.int32))
    return torch.from_numpy(plane)


def fill_hidden(colours: Tensor, alpha: Tensor) -> None:
    """Give fully transparent pixels colours that continue those of visible ones around them.

    Programs leave anything there, often black. A model that looks at it, or a filter that resizes
    it, would draw it into the edge. Averages over squares of 2, 4, 8 and more pixels, by alpha,
    are interpolated where the smaller squares have nothing visible.

    Args:
        colours: [T, 3, H, W] float32; changed where alpha is 0.
        alpha: [T, 1, H, W] float32, 0 to 1.

    Memory: 33 bytes for a pixel of one frame: with one thread torch interpolates in a copy.
    """
    for frame, veil in zip(colours, alpha, strict=True):
        sums = [F.avg_pool2d(frame * veil, 2, ceil_mode=True)]
        shares = [F.avg_pool2d(veil, 2, ceil_mode=True)]
        while max(shares[-1].shape[-2:]) > 1:
            sums.append(F.avg_pool2d(sums[-1], 2, ceil_mode=True))
            shares.append(F.avg_pool2d(shares[-1], 2, ceil_mode=True))
        found = frame.mean((-2, -1), keepdim=True)  # where nothing is visible
        while sums:
            share = shares.pop()
            found = torch.where(share > 0, sums.pop() / share, _as_large(found, share))
        torch.where(veil > 0, frame, _as_large(found, veil), out=frame)


def _as_large(colours: Tensor, other: Tensor) -> Tensor:
    size = list(other.shape[-2:])
    return F.interpolate(colours[None], size, mode="bilinear", align_corners=False)[0]
