"""Findings in a sample of a video's frames, as notices: one for each, with its remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from engine.core.geometry import Size
from engine.core.messages import Param
from engine.core.units import rate_text
from engine.protocol.media import Findings, MediaInfo, VideoInfo
from engine.protocol.plan import Notice
from engine.settings.schema import JobSettings
from engine.video import film_preparation

_REPEATS = 0.15  # share of frames that repeat the one before
_FILM_RATES = (29, 31)  # frames/s, in which film has one repeat in five frames
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
    if media.kind != "video" or media.holds_latents:
        return
    yield from _fields(media, settings)
    yield from _aspect(media.video, settings)
    found = media.findings
    if found is None:
        return
    yield from _changes(found, settings)
    yield from _repeats(media, found, settings)
    yield from _bars(media, settings)
    yield from _quality(found, media.video, settings)


def _fields(media: MediaInfo, settings: JobSettings) -> Iterator[Notice]:
    scan, how = film_preparation.scan_of(media), film_preparation.deinterlacing_of(media, settings)
    if how is None:
        if scan in ("interlaced", "telecined"):
            yield replace(_notice("interlaced-as-frames", "deinterlace=auto"), severity="warning")
        return
    rate = rate_text(film_preparation.deinterlaced(media, how).video.frame_rate)
    offers = {"frames": "deinterlace=fields", "fields": "deinterlace=frames", "film": ""}
    yield _notice("deinterlaced", offers[how.rendering], case=how.rendering, rate=rate)


def _aspect(video: VideoInfo, settings: JobSettings) -> Iterator[Notice]:
    likely = _SQUEEZED.get(video.size)
    if video.sample_aspect == 1 and likely is not None and settings.aspect == "auto":
        offers = [f"aspect={likely}", *(["aspect=16:9"] if likely == "4:3" else [])]
        seen = Fraction(video.size.width, video.size.height)
        yield _notice("aspect-doubtful", *offers, size=str(video.size), seen=f"{float(seen):.2f}:1")


def _changes(found: Findings, settings: JobSettings) -> Iterator[Notice]:
    """Difference in parts of a video, and the value that is used for all of it."""
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
        notice = _notice("changes-within", *offers, case=one.what, **about)
        is_whole = one.what == "coded-aspect"
        yield notice if is_whole else replace(notice, severity="warning")


def _repeats(media: MediaInfo, found: Findings, settings: JobSettings) -> Iterator[Notice]:
    if found.repeats < _REPEATS or settings.deinterlace == "film" or found.scan == "telecined":
        return
    rate = media.video.frame_rate or 0
    low, high = _FILM_REPEATS
    is_film = _FILM_RATES[0] <= rate <= _FILM_RATES[1] and low <= found.repeats <= high
    offers = ("deinterlace=film",) if is_film else ()
    yield _notice("frames-repeat", *offers, share=f"{100 * found.repeats:.0f} %")


def _bars(media: MediaInfo, settings: JobSettings) -> Iterator[Notice]:
    box = film_preparation.picture_within_bars(media)
    if box is not None:
        size = {"size": str(media.video.size), "picture": str(box.size)}
        if settings.black_bars == "put-back":
            yield _notice("black-bars", case="put-back", **size)
        else:
            yield _notice("black-bars", "black_bars=put-back", **size)


def _quality(found: Findings, video: VideoInfo, settings: JobSettings) -> Iterator[Notice]:
    may_be_lite = settings.model in ("auto", "lite")
    restore, keep = ("treatment=restore", "treatment=faithful") if may_be_lite else ("", "")
    if found.detail_height:
        height = {"height": f"{video.size.height}p", "detail": f"{found.detail_height}p"}
        yield _notice("detail-missing", restore, **height)
    if found.blocking >= _BLOCKING:
        yield _notice("blocks-visible", restore)
    if found.grain >= _GRAIN:
        yield _notice("grain-visible", keep, restore)


def _notice(code: str, *offers: str, case: str = "", **params: Param) -> Notice:
    found = {**params, "offers": ";".join(offers)} if any(offers) else params
    return Notice(code=code, case=case, severity="info", params=found)
