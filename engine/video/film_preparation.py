"""Preparation of a video for a model, by its settings: fields, shape, black bars. Loads no av."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from engine.core.geometry import Box, Size
from engine.protocol.media import (
    Deinterlacing,
    FieldOrder,
    MediaInfo,
    Rendering,
    Scan,
    VideoInfo,
    subsampling,
)
from engine.protocol.plan import PicturePlan
from engine.settings.schema import JobSettings

_LEAST_SIDE = 4  # px, of what it can deinterlace
_SHOWN_FIRST: dict[str, FieldOrder] = {"tt": "tt", "bb": "bb", "tb": "bb", "bt": "tt"}


def scan_of(media: MediaInfo) -> Scan:
    """Whether frames are combed: as a sample of them shows, else as the file states."""
    if media.findings is not None and media.findings.scan:
        return media.findings.scan
    return "interlaced" if media.video.is_interlaced else "progressive"


def deinterlacing_of(media: MediaInfo, settings: JobSettings) -> Deinterlacing | None:
    """The deinterlacing of a video; None for images, and for videos without it."""
    video = media.video
    is_film = media.kind == "video" and not media.holds_latents
    if not is_film or min(video.size.width, video.size.height) < _LEAST_SIDE:
        return None
    rendering = _rendering(media, settings.deinterlace)
    if rendering is None:
        return None
    return Deinterlacing(rendering=rendering, field_order=_field_order(media))


def made_with_rate(media: MediaInfo, rate: Fraction | None) -> MediaInfo:
    """A video as it was read for a result of that rate: deinterlaced where it is combed."""
    if scan_of(media) not in ("interlaced", "telecined") or not media.video.frame_rate or not rate:
        return media
    factor = rate / media.video.frame_rate
    choice = "fields" if factor > 1.5 else "film" if factor < 0.9 else "frames"
    return deinterlaced(media, deinterlacing_of(media, JobSettings(deinterlace=choice)))


def _rendering(media: MediaInfo, choice: str) -> Rendering | None:
    match choice:
        case "frames" | "fields" | "film":
            return choice
        case "off":
            return None
    found: dict[Scan, Rendering] = {"interlaced": "frames", "telecined": "film"}
    return found.get(scan_of(media))


def _field_order(media: MediaInfo) -> FieldOrder:
    found = media.findings
    if found is not None and found.scan in ("interlaced", "telecined"):
        return found.field_order
    return _SHOWN_FIRST.get(media.video.field_order, "tt")


def deinterlaced(media: MediaInfo, how: Deinterlacing | None) -> MediaInfo:
    """A video as it is read through `how`: its rate, times and number of frames."""
    if how is None:
        return media
    return replace(media, video=_video(media.video, how))


def _video(video: VideoInfo, how: Deinterlacing) -> VideoInfo:
    return replace(
        video,
        frame_rate=video.frame_rate * how.frames_out if video.frame_rate is not None else None,
        time_base=video.time_base / how.time_parts,
        start_pts=video.start_pts * how.time_parts,
        frame_count=round(video.frame_count * how.frames_out),
        frame_count_is_exact=video.frame_count_is_exact and how.rendering != "film",
        is_interlaced=False,
        field_order="progressive",
        deinterlacing=how,
    )


def sample_aspect(video: VideoInfo, settings: JobSettings) -> Fraction:
    """Width of a pixel over its height: as the user wants the whole picture to be seen."""
    if settings.aspect == "auto":
        return video.sample_aspect
    if settings.aspect == "square":
        return Fraction(1)
    width, height = map(int, settings.aspect.split(":"))
    seen = video.seen_size
    shape = Fraction(width, height) * seen.height / seen.width
    return 1 / shape if video.rotation in (90, 270) else shape


# --- black bars


def picture_within_bars(media: MediaInfo) -> Box | None:
    """The part of the stored picture within black bars; None where it has none."""
    return media.findings.picture if media.findings is not None else None


def part_to_enlarge(media: MediaInfo, settings: JobSettings, picture: PicturePlan) -> Box | None:
    """The part of the picture that a model gets; None for the whole.

    A picture that is turned, or has alpha, is enlarged with its bars.
    """
    box, video = picture_within_bars(media), media.video
    is_turned = (video.rotation, video.is_mirrored) != (picture.rotation, picture.is_mirrored)
    if box is None or settings.black_bars != "put-back" or is_turned or picture.has_alpha:
        return None
    return box


def enlarged(box: Box, source: Size, picture: PicturePlan) -> Box:
    """Place of a part of the source in the result, in whole chroma samples."""
    across, down = subsampling(picture.chroma)
    x, right = (_place(v, source.width, picture.size.width, across) for v in (box.x, box.right))
    y, bottom = (_place(v, source.height, picture.size.height, down) for v in (box.y, box.bottom))
    return Box(x, y, right - x, bottom - y)


def _place(value: int, source: int, result: int, step: int) -> int:
    """A coordinate in the result; its end stays the end."""
    if value == source:
        return result
    return round(value * result / source / step) * step


def tile_of_whole(tile: Box, canvas: Size, part: Box, source: Size) -> tuple[Box, Size]:
    """A tile of the canvas that a part of the source became, and the canvas of the whole source."""
    across, down = canvas.width / part.width, canvas.height / part.height
    moved = replace(tile, x=tile.x + round(part.x * across), y=tile.y + round(part.y * down))
    return moved, Size(round(source.width * across), round(source.height * down))


def within(box: Box, video: VideoInfo, picture: PicturePlan) -> tuple[VideoInfo, PicturePlan]:
    """Source and result without their bars, as a model sees them."""
    inner = enlarged(box, video.size, picture)
    return replace(video, size=box.size), replace(picture, size=inner.size)
