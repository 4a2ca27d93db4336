"""Third stage: exact size, upright where the file cannot say so, and back to code values."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine.ops.resize import resize
from engine.pipeline.display import turn
from engine.protocol.media import VideoInfo
from engine.protocol.plan import Plan
from engine.video.colour.convert import colour_spec, from_rgb

Planes = tuple[np.ndarray, ...]


class Restore:
    """Turns the model's frames into what the encoder takes."""

    def __init__(self, video: VideoInfo, plan: Plan) -> None:
        self._size = plan.picture.size
        self._spec = colour_spec(plan.picture)
        self._has_alpha = plan.picture.has_alpha
        # what the container cannot say is done to the pixels
        self._turn = (video.rotation - plan.picture.rotation) % 360
        self._mirror = video.is_mirrored and not plan.picture.is_mirrored

    def run(self, frames: Tensor, alpha: Tensor | None) -> tuple[list[Planes], Tensor]:
        """Code values for the encoder.

        Args:
            frames: [T, 3, H, W] float32, RGB, at the model's size.
            alpha: [T, 1, h, w] float32 at the source's size, or None.

        Returns:
            For each frame its planes [h, w] uint8 or uint16 in host memory; and the frames
            [T, 3 or 4, height, width] float32 they were made from.
        """
        stored = self._size.transposed() if self._turn in (90, 270) else self._size
        picture = resize(frames, stored)
        if self._has_alpha:
            opaque = torch.ones_like(picture[:, :1])
            veil = opaque if alpha is None else resize(alpha, stored).clamp(0, 1)
            picture = torch.cat([picture, veil], dim=1)
        picture = turn(picture, self._turn, self._mirror)
        planes = [plane.cpu().numpy() for plane in from_rgb(picture, self._spec)]
        return [tuple(plane[t] for plane in planes) for t in range(len(frames))], picture
