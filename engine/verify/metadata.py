"""Compares what the two files say of themselves: size, colour tags, chapters, titles."""

from __future__ import annotations

from fractions import Fraction

from engine.protocol.media import (
    ChapterInfo,
    ColourTags,
    MediaInfo,
    StreamInfo,
    VideoInfo,
)
from engine.protocol.plan import PicturePlan, Plan
from engine.protocol.report import Check

_SHAPE = 0.01  # the picture as seen may be wider or narrower by less
_CHAPTER_S = 0.05  # a chapter may begin off by less
_OWN_KEYS = {  # a file's own words about itself
    *("encoder", "encoding_tool", "encoded_by", "creation_time", "duration", "timecode"),
    *("major_brand", "minor_version", "compatible_brands", "handler_name", "vendor_id"),
}
_MP4_KEYS = {  # what MP4 and MOV have a place for
    *("title", "artist", "album", "album_artist", "composer", "genre", "comment", "description"),
    *("synopsis", "copyright", "show", "lyrics", "grouping"),
}
_SD_GUESSES = frozenset({"smpte170m", "bt470bg", "bt709"})
_HD_GUESSES = frozenset({"bt709"})
_NO_MATRIX = ("rgb", "gray")  # written as something else, they need other tags
_TAGS = ("matrix", "range", "primaries", "transfer")


def size_check(source: VideoInfo, result: VideoInfo, plan: PicturePlan | None) -> Check:
    """Size, shape of the pixels and rotation: as planned, else the same shape as seen."""
    fault = _planned_fault(result, plan) if plan is not None else _shape_fault(source, result)
    return Check(
        code="size",
        passed=not fault,
        message=fault or f"The picture is {_seen_text(result)}, from {_seen_text(source)}.",
        source=str(source.size),
        output=str(result.size),
    )


def _seen_text(video: VideoInfo) -> str:
    pixels = f", pixels {video.sample_aspect}" if video.sample_aspect != 1 else ""
    return f"{video.seen_size}{pixels}"


def _planned_fault(result: VideoInfo, plan: PicturePlan) -> str:
    if result.size != plan.size:
        return f"The picture is {result.size} instead of {plan.size}."
    if result.sample_aspect != plan.sample_aspect:
        return f"Pixels are {result.sample_aspect} wide instead of {plan.sample_aspect}."
    if (result.rotation, result.is_mirrored) != (plan.rotation, plan.is_mirrored):
        return f"The picture is turned by {result.rotation} degrees instead of {plan.rotation}."
    return ""


def _shape_fault(source: VideoInfo, result: VideoInfo) -> str:
    """Both as seen: stored sizes may differ where one is turned by its file."""
    before, after = _seen_shape(source), _seen_shape(result)
    rounding = 1 / min(result.size.width, result.size.height)
    if abs(after / before - 1) > max(_SHAPE, float(rounding)):
        return f"The picture has the shape {float(after):.3f} instead of {float(before):.3f}."
    return ""


def _seen_shape(video: VideoInfo) -> Fraction:
    shape = video.size.width * video.sample_aspect / video.size.height
    return 1 / shape if video.rotation in (90, 270) else shape


def tags_check(source: VideoInfo, result: MediaInfo, plan: PicturePlan | None) -> Check:
    """Matrix, range, primaries and transfer: the source's, or where it says nothing a fair guess.

    A picture file cannot carry them all, so only its shape of numbers would count; it passes.
    """
    if result.kind != "video":
        return Check(code="tags", passed=True, message="Picture files carry no colour tags.")
    faults = []
    for name in _TAGS:
        was, now = getattr(source.tags, name), getattr(result.video.tags, name)
        allowed = _allowed(name, source, result.video, plan)
        if now not in allowed:
            expected = " or ".join(sorted(value or "nothing" for value in allowed))
            source_text = f" (source: {was or 'nothing'})"
            faults.append(f"{name} is {now or 'nothing'} instead of {expected}{source_text}")
    return Check(
        code="tags",
        passed=not faults,
        message=f"Wrong colour tags: {'; '.join(faults)}."
        if faults
        else "Colour tags are the source's.",
        source=_tags_text(source.tags),
        output=_tags_text(result.video.tags),
    )


def _allowed(name: str, source: VideoInfo, result: VideoInfo, plan: PicturePlan | None) -> set[str]:
    """Values that a colour tag of the result may have."""
    was = getattr(source.tags, name)
    planned = getattr(plan.tags, name) if plan is not None else None
    changes_numbers = (source.chroma in _NO_MATRIX) != (result.chroma in _NO_MATRIX)
    if was and not (changes_numbers and name in ("matrix", "range")):
        return {was}
    if planned:
        return {planned}
    if name == "range":
        return {"", "tv", "pc"} if changes_numbers else {"", _untagged_range(source)}
    if name == "matrix" and result.chroma == "rgb":
        return {"", "rgb"}
    is_small = source.size.height <= 576 and source.size.width <= 1024
    return {"", *(_SD_GUESSES if is_small else _HD_GUESSES)}


def _untagged_range(video: VideoInfo) -> str:
    is_full = video.chroma in ("rgb", "gray") or video.pixel_format.startswith("yuvj")
    return "pc" if is_full else "tv"


def _tags_text(tags: ColourTags) -> str:
    return ", ".join(getattr(tags, name) or "-" for name in _TAGS)


def chapters_check(
    source: MediaInfo, result: MediaInfo, shift: Fraction, plan: Plan | None
) -> Check:
    """Compare number, titles and beginnings of the chapters; a cut job keeps those it touches.

    Args:
        source: What the source is.
        result: What the result is.
        shift: How much later the first picture is on the result's clock, s.
        plan: What was meant to be done, with the part that was taken.
    """
    if result.kind != "video":
        return Check(code="chapters", passed=True, message="Picture files have no chapters.")
    old, new = source.chapters, result.chapters
    if plan is not None and (plan.start, plan.stop) != (None, None):
        first = source.start + (plan.start or Fraction(0))
        last = source.start + plan.stop if plan.stop is not None else None
        old = tuple(c for c in old if c.end > first and (last is None or c.start < last))
    fault = ""
    if len(old) != len(new):
        fault = f"{len(old)} chapters should be there, {len(new)} are."
    stretches = "mov" in result.container  # FFmpeg's MP4 and MOV let the first begin at 0
    for number, (before, after) in enumerate(zip(old, new, strict=False), 1):
        is_stretched = stretches and number == 1 and after.start == 0
        expected = Fraction(0) if is_stretched else max(before.start + shift, Fraction(0))
        fault = fault or _chapter_fault(number, before, after, expected)
    return Check(
        code="chapters",
        passed=not fault,
        message=fault or f"{len(new)} chapters, as in the source.",
        source=str(len(old)),
        output=str(len(new)),
    )


def _chapter_fault(number: int, before: ChapterInfo, after: ChapterInfo, expected: Fraction) -> str:
    if before.title and before.title != after.title:
        return f"Chapter {number} is called {after.title!r} instead of {before.title!r}."
    off = after.start - expected
    if abs(off) > _CHAPTER_S:
        way = "late" if off > 0 else "early"
        return f"Chapter {number} begins {abs(float(off)):.3f} s too {way}."
    return ""


def metadata_check(
    source: MediaInfo, result: MediaInfo, pairs: tuple[tuple[StreamInfo, StreamInfo], ...]
) -> Check:
    """Title, artist and so on, and the tracks' languages, as far as the container keeps them."""
    if result.kind != "video":
        return Check(code="metadata", passed=True, message="Picture files keep no titles.")
    is_mkv = "matroska" in result.container
    new = {key.lower(): value for key, value in result.metadata.items()}
    old = {key.lower(): value for key, value in source.metadata.items()}
    faults = [
        f"{key} is {new[key]!r} instead of {value!r}" if key in new else f"{key} is lost"
        for key, value in old.items()
        if value and _is_kept(key, is_mkv) and new.get(key) != value
    ]
    for before, after in pairs:
        faults += _track_faults(before, after, is_mkv)
    message = f"Words about the file: {'; '.join(faults)}."
    if not faults:
        kept = sum(_is_kept(key, is_mkv) for key in old)
        message = f"{kept} entries of metadata and the tracks' languages are kept."
    return Check(code="metadata", passed=not faults, message=message)


def _is_kept(key: str, is_mkv: bool) -> bool:
    return key not in _OWN_KEYS if is_mkv else key in _MP4_KEYS


def _track_faults(before: StreamInfo, after: StreamInfo, is_mkv: bool) -> list[str]:
    faults = []
    name = f"{before.kind} track {before.index}"
    was, now = (s.language if s.language != "und" else "" for s in (before, after))
    if was and now != was and (is_mkv or len(was) == 3):  # MP4 has room for three letters
        faults.append(f"{name} has the language {now or 'unknown'} instead of {was}")
    if is_mkv and before.title and after.title != before.title:
        faults.append(f"{name} is called {after.title!r} instead of {before.title!r}")
    return faults
