"""Preparation of a video for a model, by its settings: fields, shape, black bars. Loads no av.

Its notices name each finding in a sample of the frames, with its remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from engine.core.geometry import Box, Size
from engine.core.messages import Param
from engine.core.units import rate_text
from engine.protocol.media import (
    Deinterlacing,
    FieldOrder,
    Findings,
    MediaInfo,
    Rendering,
    Scan,
    VideoInfo,
    subsampling,
)
from engine.protocol.plan import Notice, PicturePlan
from engine.settings.schema import LITE, JobSettings

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


# --- findings in a sample of a video's frames, each with its remedy

_REPEATS = 0.15  # share of frames that repeat the one before
_FILM_RATES = (29, 31)  # frames/s, in which telecined film has one repeat in five frames
_FILM_REPEATS = (0.15, 0.25)
_BLOCKING = 1.25  # steps at the edges of blocks, of those inside
_GRAIN = 0.012  # of full scale
_SHAPES = ("4:3", "16:9")  # that the setting `aspect` has
_SQUEEZED = {  # sizes that are stored with pixels that are not square: shape as seen
    **{Size(width, 576): "4:3" for width in (352, 480, 544, 704, 720)},
    **{Size(width, 480): "4:3" for width in (352, 480, 528, 544, 704, 720)},
    Size(1440, 1080): "16:9",
    Size(1280, 1080): "16:9",
}


def source_notices(media: MediaInfo, settings: JobSettings) -> Iterator[Notice]:
    """Findings in a video, and their treatment by the settings.

    The param "offers" of a notice has what helps: settings as for `with_text`, parted by ";".
    """
    found = media.findings
    if media.kind == "sequence" and found is not None:
        yield from _differences(found, settings, "images-")
    if media.kind != "video" or media.holds_latents:
        return
    yield from _fields(media, settings)
    yield from _aspect(media.video, settings)
    if found is None:
        return
    yield from _differences(found, settings)
    yield from _repeats(media, found, settings)
    yield from _bars(media, settings)
    yield from _quality(found, media.video, settings)


def _fields(media: MediaInfo, settings: JobSettings) -> Iterator[Notice]:
    scan, how = scan_of(media), deinterlacing_of(media, settings)
    if how is None:
        if scan in ("interlaced", "telecined"):
            yield replace(_finding("interlaced-as-frames", "deinterlace=auto"), severity="warning")
        return
    rate = rate_text(deinterlaced(media, how).video.frame_rate)
    offers = {"frames": "deinterlace=fields", "fields": "deinterlace=frames", "film": ""}
    yield _finding("deinterlaced", offers[how.rendering], case=how.rendering, rate=rate)


def _aspect(video: VideoInfo, settings: JobSettings) -> Iterator[Notice]:
    likely = _SQUEEZED.get(video.size)
    if video.sample_aspect == 1 and likely is not None and settings.aspect == "auto":
        offers = [f"aspect={likely}", *(["aspect=16:9"] if likely == "4:3" else [])]
        seen = Fraction(video.size.width, video.size.height)
        yield _finding(
            "aspect-doubtful", *offers, size=str(video.size), seen=f"{float(seen):.2f}:1"
        )


def _differences(found: Findings, settings: JobSettings, case: str = "") -> Iterator[Notice]:
    """Difference in parts of a video, and the value that is used for all of it.

    Args:
        found: Findings in its frames.
        settings: Settings of the job.
        case: Beginning of the messages' cases: "images-" where frames are files of their own.
    """
    for one in found.changes:
        is_shape = one.what in ("aspect", "coded-aspect")
        if is_shape and settings.aspect != "auto":
            continue  # the user has chosen
        offers: tuple[str, ...] = ()
        if one.what == "scan":
            offers = ("deinterlace=frames", "deinterlace=off")
        if is_shape:
            offers = tuple(f"aspect={shape}" for shape in _SHAPES if shape == one.other)
        about = {"taken": one.taken, "other": one.other, "share": f"{100 * one.share:.0f} %"}
        notice = _finding("changes-within", *offers, case=f"{case}{one.what}", **about)
        is_whole = one.what == "coded-aspect"
        yield notice if is_whole else replace(notice, severity="warning")


def _repeats(media: MediaInfo, found: Findings, settings: JobSettings) -> Iterator[Notice]:
    if found.repeats < _REPEATS or settings.deinterlace == "film" or found.scan == "telecined":
        return
    rate = media.video.frame_rate or 0
    low, high = _FILM_REPEATS
    is_film = _FILM_RATES[0] <= rate <= _FILM_RATES[1] and low <= found.repeats <= high
    offers = ("deinterlace=film",) if is_film else ()
    yield _finding("frames-repeat", *offers, share=f"{100 * found.repeats:.0f} %")


def _bars(media: MediaInfo, settings: JobSettings) -> Iterator[Notice]:
    box = picture_within_bars(media)
    if box is not None:
        size = {"size": str(media.video.size), "picture": str(box.size)}
        if settings.black_bars == "put-back":
            yield _finding("black-bars", case="put-back", **size)
        else:
            yield _finding("black-bars", "black_bars=put-back", **size)


def _quality(found: Findings, video: VideoInfo, settings: JobSettings) -> Iterator[Notice]:
    may_be_lite = settings.model in ("auto", *LITE)
    restore, keep = ("treatment=restore", "treatment=faithful") if may_be_lite else ("", "")
    case = "" if may_be_lite else "untreated"  # by another model
    if found.detail_height:
        height = {"height": f"{video.size.height}p", "detail": f"{found.detail_height}p"}
        yield _finding("detail-missing", restore, **height)
    if found.blocking >= _BLOCKING:
        is_chosen = may_be_lite and settings.treatment == "restore"
        yield _finding("blocks-visible", restore, case="treated" if is_chosen else case)
    if found.grain >= _GRAIN:
        yield _finding("grain-visible", keep, restore, case=case)


def _finding(code: str, *offers: str, case: str = "", **params: Param) -> Notice:
    found = {**params, "offers": ";".join(offers)} if any(offers) else params
    return Notice(code=code, case=case, severity="info", params=found)
