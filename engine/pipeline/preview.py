"""One frame of a source or a result, as seen: for thumbnails and for the compare view."""

from __future__ import annotations

import numpy as np
import torch

from engine.pipeline.display import seen
from engine.protocol.events import Picture
from engine.protocol.media import MediaInfo
from engine.video.colour.convert import colour_spec, to_rgb
from engine.video.read.frame_reader import frame_at


def frame_picture(media: MediaInfo, seconds: float, longest_side: int) -> Picture:
    """The frame shown at a time.

    Args:
        media: Source or result.
        seconds: From the start of the film; beyond the end means the last frame.
        longest_side: Most pixels on the longer side.

    Raises:
        InputError: The file cannot be read (any more).
    """
    frame = frame_at(media, seconds)
    video = media.video
    planes = [torch.from_numpy(plane.astype(np.int32))[None] for plane in frame.planes]
    with torch.inference_mode():
        rgb = to_rgb(planes, colour_spec(video), "cpu")[0, :3]
        return seen(
            rgb,
            rotation=video.rotation,
            mirrored=video.is_mirrored,
            aspect=video.sample_aspect,
            longest_side=longest_side,
        )
