"""Pictures for people: frames turned and stretched as the video is seen, in 8-bit RGB."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import torch
from av.video.reformatter import ColorRange, Colorspace, Interpolation
from torch import Tensor
from torch.nn import functional

from engine.core.geometry import Box, Size
from engine.models.latents import LatentFormat
from engine.ops.resize import resize, thumbnail
from engine.ops.transfer.pinned import HostCopy
from engine.protocol.events import Picture
from engine.protocol.media import MediaInfo, VideoInfo
from engine.protocol.plan import WeightsPlan
from engine.video.colour import colour_spec, to_rgb
from engine.video.planes import frame_of, layout_of, planar_format
from engine.video.read.frame_reader import frame_at
from engine.video.read.frames import PlanarFrame


def turn(frame: Tensor, rotation: int, mirrored: bool) -> Tensor:
    """[..., H, W] turned clockwise by 0, 90, 180 or 270 degrees, then left and right exchanged."""
    if rotation:
        frame = torch.rot90(frame, -(rotation // 90), (-2, -1))
    return frame.flip(-1) if mirrored else frame


def put_back(frames: Tensor, box: Box, size: Size) -> Tensor:
    """[..., h, w] in its place in black frames [..., H, W] of a size."""
    after = size.width - box.right, size.height - box.bottom
    return functional.pad(frames, (box.x, after[0], box.y, after[1]))


def turn_box(box: Box, canvas: Size, rotation: int, mirrored: bool) -> Box:
    """Box of a canvas after `turn`."""
    if rotation == 90:
        turned = Box(canvas.height - box.bottom, box.x, box.height, box.width)
    elif rotation == 180:
        turned = Box(canvas.width - box.right, canvas.height - box.bottom, box.width, box.height)
    elif rotation == 270:
        turned = Box(box.y, canvas.width - box.right, box.height, box.width)
    else:
        turned = box
    if not mirrored:
        return turned
    width = canvas.height if rotation in (90, 270) else canvas.width
    return Box(width - turned.right, turned.y, turned.width, turned.height)


class ComingPicture:
    """A small picture of a frame [C, H, W] float32, 0 to 1, that comes from its device."""

    def __init__(self, frame: Tensor, longest_side: int) -> None:
        self._copy = HostCopy(thumbnail(frame, longest_side))

    @property
    def is_here(self) -> bool:
        """Whether `picture` would not wait for the device."""
        return self._copy.is_here

    def picture(self) -> Picture:
        """The picture; waits for it."""
        small = self._copy.values()
        return Picture(size=Size(small.shape[1], small.shape[0]), rgb=small.numpy().tobytes())


def picture_of(frame: Tensor, longest_side: int) -> Picture:
    """A frame [C, H, W] float32, 0 to 1, as a small picture."""
    return ComingPicture(frame, longest_side).picture()


def seen(
    frame: Tensor, *, rotation: int, mirrored: bool, aspect: Fraction, longest_side: int
) -> Picture:
    """A frame as stored to the picture as seen: square pixels, upright, at most so large."""
    _, height, width = frame.shape
    if aspect != 1:
        wide = Size(max(1, round(width * aspect)), height)
        frame = resize(frame[None], wide)[0]
    return picture_of(turn(frame, rotation, mirrored), longest_side)


# --- frames to look at


def frame_picture(media: MediaInfo, seconds: float, longest_side: int) -> Picture:
    """The frame shown at a time.

    Args:
        media: Source or result.
        seconds: Time from the start of the video; beyond the end means the last frame.
        longest_side: Most pixels on the longer side.

    Raises:
        InputError: The file cannot be read (any more).
    """
    return exact_picture(frame_at(media, seconds), media.video, longest_side)


def exact_picture(frame: PlanarFrame, video: VideoInfo, longest_side: int) -> Picture:
    """A frame as seen, converted in float32 and then reduced."""
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


_SWSCALE_MATRICES = {
    "bt709": Colorspace.ITU709,
    "smpte170m": Colorspace.ITU601,
    "fcc": Colorspace.FCC,
    "smpte240m": Colorspace.SMPTE240M,
    "bt2020nc": Colorspace.BT2020,
    "rgb": Colorspace.ITU709,  # swscale does not use it
    "gray": Colorspace.ITU709,
}


def quick_picture(frame: PlanarFrame, video: VideoInfo, box: Size) -> Picture:
    """A frame as seen, reduced to a box before it becomes RGB: 8 bit arithmetic, for playback.

    Args:
        frame: Frame as it was read.
        video: Properties of its video.
        box: Most pixels across and down, as seen; never enlarged.

    Memory: a copy of the planes, and the picture.
    """
    spec = colour_spec(video)
    matrix = _SWSCALE_MATRICES.get(spec.matrix)
    across, down = video.size.width * video.sample_aspect, video.size.height
    stored = box.transposed() if video.rotation in (90, 270) else box
    size = Size(max(1, round(across)), down).within(stored)
    if matrix is None or spec.has_alpha:
        return exact_picture(frame, video, max(size.width, size.height))
    planar = frame_of(frame.planes, video.size, planar_format(layout_of(video.pixel_format)))
    small = planar.reformat(
        width=size.width,
        height=size.height,
        format="rgb24",
        src_colorspace=matrix,
        src_color_range=ColorRange.JPEG if spec.full_range else ColorRange.MPEG,
        dst_color_range=ColorRange.JPEG,
        interpolation=Interpolation.FAST_BILINEAR,
        threads=1,
    )
    rgb = small.to_ndarray()
    if video.rotation:
        rgb = np.rot90(rgb, -(video.rotation // 90))
    if video.is_mirrored:
        rgb = rgb[:, ::-1]
    return Picture(size=Size(rgb.shape[1], rgb.shape[0]), rgb=rgb.tobytes())


_MOST_PIXELS = 150_000  # decoded: some seconds of a CPU for each reading


def first_picture(
    latents: LatentFormat, path: Path, vae: WeightsPlan, longest_side: int
) -> tuple[Picture, Picture, bool]:
    """The first latent decoded on the CPU, or its middle where that would take long.

    Args:
        latents: Format of the file.
        path: Path of the file.
        vae: VAE that belongs to it.
        longest_side: Most pixels on the longer side.

    Returns:
        Its values taken as raw, and as normalised; whether the picture is whole.

    Raises:
        InputError, WeightsError: One of the files cannot be used.

    Memory: the VAE, and what it needs for two small pictures.
    """
    raw, normalised, is_whole = latents.first_frames(path, vae, _MOST_PIXELS)
    return picture_of(raw, longest_side), picture_of(normalised, longest_side), is_whole
